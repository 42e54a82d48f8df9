"""`coplace slurm`: what lies between a Slurm and Coplace."""
