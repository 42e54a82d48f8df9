"""The resource manager of Kubernetes on real API servers: `make e2e-kubernetes-jobs`."""
