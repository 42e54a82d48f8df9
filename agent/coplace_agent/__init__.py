"""The node agent: pauses the co-runners of each job for an instant, and publishes what that
showed."""
