"""Texts about the built-in kinds: their purposes, and their names in Istio, Linkerd, Envoy and Kubernetes."""
