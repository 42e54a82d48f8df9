"""Where and how each job could run, what would come of it, and where it never can."""
