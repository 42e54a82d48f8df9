"""`coplace kueue`: what an operator of a Kueue does beside the process."""
