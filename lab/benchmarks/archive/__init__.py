"""How long a month of jobs takes to archive, and how large it is."""
