"""Turns a program and its placement into Envoy resources, Kubernetes objects, interception rules and pictures."""
