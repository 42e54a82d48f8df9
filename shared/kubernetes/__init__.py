"""What every resource manager of Kubernetes clusters needs: API servers, nodes, claims."""
