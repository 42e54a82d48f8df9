"""Where and how each job could run, and what would come of it."""
