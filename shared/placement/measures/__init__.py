"""What caps of power ask of running jobs."""
