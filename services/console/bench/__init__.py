"""Throughput, latency and memory of the whole system: `coplace bench`."""
