"""Schedules of logs and of a model's jobs, on one pool or on clusters: `coplace simulate`."""
