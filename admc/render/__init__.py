"""See the folders."""
