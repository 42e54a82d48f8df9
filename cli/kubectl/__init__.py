"""`kubectl coplace`: Coplace at the cluster and the namespace where kubectl is."""
