"""What a Slurm says of its jobs, as facts: read by ingest's way in and by `coplace slurm`."""
