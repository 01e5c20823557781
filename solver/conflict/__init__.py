"""Explains why no correct placement exists: the lines that conflict, and remedies."""
