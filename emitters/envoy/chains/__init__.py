"""Filter chains: the configuration of one hop in Envoy, from its filters to its clusters."""
