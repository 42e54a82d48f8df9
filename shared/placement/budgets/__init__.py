"""What caps of power leave for jobs, and what meters show of it."""
