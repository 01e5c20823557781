"""Filter chains: what one hop becomes in Envoy, from its filters to its clusters."""
