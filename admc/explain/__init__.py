"""Answers to `admc explain`."""
