"""The words around the built-in kinds: what each is for, and what Istio, Linkerd, Envoy and Kubernetes call it."""
