"""A resource manager: the jobs of a Slurm that Coplace starts."""
