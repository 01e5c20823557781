"""Manifests with the ports, probes and security contexts of Online Boutique, on a real node."""
