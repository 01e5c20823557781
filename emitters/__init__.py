"""From a program and its placement to what runs: Envoy resources, Kubernetes objects, interception rules, pictures."""
