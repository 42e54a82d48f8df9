"""The way in for Slurm's jobcomp/kafka plugin."""
