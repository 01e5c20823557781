"""What one hop takes of CPU for a request, and what parts of its configuration take of that."""
