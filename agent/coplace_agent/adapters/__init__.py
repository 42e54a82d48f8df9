"""What the agent touches: processes, control groups, counters, files, ingest."""
