"""Serves snapshots of named resources to proxies over the aggregated discovery service.

It will know resources, versions and streams, and no policy. Nothing is served yet: `admc compile --emit` writes static
configuration that Envoy runs without a server.
"""
