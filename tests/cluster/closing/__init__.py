"""NetworkPolicies of closed destinations in a cluster."""
