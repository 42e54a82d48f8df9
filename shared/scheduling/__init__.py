"""Scheduling of jobs: the queue of job-cluster entries, the schedulers that serve it,
look-ahead."""
