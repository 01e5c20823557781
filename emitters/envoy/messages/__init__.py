"""Envoy messages: written as JSON, validated against the schema, and built."""
