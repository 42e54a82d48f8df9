"""Jobs and nodes as Slurm shows them, and what they are to Coplace: pure."""
