"""A workload through the whole system, and the results of a run of it: `coplace demo`."""
