"""Orders to Slurm for a decision: pure."""
