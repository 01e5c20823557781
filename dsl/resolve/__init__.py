"""Syntax tree to program: resolves every name, and checks every policy against the calls in its scope."""
