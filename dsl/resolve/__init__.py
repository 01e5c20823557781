"""Syntax tree to program: every name looked up, every policy held against the calls in its scope."""
