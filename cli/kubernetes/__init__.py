"""`coplace kubernetes`: what an operator of Kubernetes clusters does beside the process."""
