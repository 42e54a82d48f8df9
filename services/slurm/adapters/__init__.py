"""Slurm's commands, ingest, placement and the decisions over gRPC."""
