"""Throughput, latency and memory of the whole system: `make bench`."""
