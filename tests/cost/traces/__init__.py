"""Traces: readers, drops, evaluation, and requests that are made of them."""
