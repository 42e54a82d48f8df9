"""The adapter that the chart installs, on real API servers with simulated nodes."""
