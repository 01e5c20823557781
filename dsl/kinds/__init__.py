"""Kinds of policies: their declarations, annotations and the built-in ones."""
