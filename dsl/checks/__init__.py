"""Checks across the policies of a resolved program."""
