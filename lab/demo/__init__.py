"""A workload through the whole system, and what a run of it comes to: `coplace demo`."""
