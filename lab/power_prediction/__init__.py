"""Power before a job runs, learned from a whole log one job after the other."""
