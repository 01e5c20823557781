"""Bounds for clients: streams, connections, memory and log lines."""
