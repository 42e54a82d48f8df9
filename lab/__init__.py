"""What no region runs: the emulator, workloads, simulation, papers, benchmarks, the demo."""
