"""Who runs when: the queue of job-cluster entries, the lanes that serve it, look-ahead."""
