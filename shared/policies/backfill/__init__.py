"""The queue of job-cluster entries and the lanes that serve it; compiled by setup.py."""
