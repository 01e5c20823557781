"""From a program on disk to a verified plan."""
