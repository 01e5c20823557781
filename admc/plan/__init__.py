"""The plan: the file that people review."""
