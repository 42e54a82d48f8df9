"""`coplace slurm check|release`: what a site does beside its Slurm."""
