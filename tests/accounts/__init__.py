"""Charges beside the accounts of a real Slurm 24.11 with jobcomp/kafka."""
