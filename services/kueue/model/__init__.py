"""Workloads, pods and what is written of them: pure."""
