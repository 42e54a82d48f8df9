"""Price models, tariffs and charges as anybody computes them."""
