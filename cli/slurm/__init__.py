"""`coplace slurm`: what an operator of a Slurm does beside the process."""
