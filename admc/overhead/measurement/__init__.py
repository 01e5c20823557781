"""Measures a profile on this machine: load, echo, and real proxies with the configuration that admc emits."""
