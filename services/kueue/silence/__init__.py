"""The process that gives Workloads to Kueue's own rules while Coplace is silent."""
