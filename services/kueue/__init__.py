"""Kueue's Workloads under Coplace: an AdmissionCheck, and the dispatcher of MultiKueue."""
