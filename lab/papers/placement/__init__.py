"""EAMC against the paper's figures, and real logs under EASY: `make bench-placement`."""
