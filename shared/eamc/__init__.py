"""EAMC's choices of frequency and cluster, and EAR's two policies: numpy and the domain."""
