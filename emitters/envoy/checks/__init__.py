"""Checks before anything is built: parts of a placement that Envoy cannot express, and missing addresses."""
