"""Real parts of a Kubernetes cluster for tests: an API server by itself, or a node (docs/cluster/testing.md)."""
