"""Measurements, not tests: nothing here fails because a machine is slow."""
