"""A resource manager: suspended Jobs of Kubernetes clusters that Coplace starts."""
