"""Traces of requests: read as columns, evaluated tree by tree, or summed up as `request` statements."""
