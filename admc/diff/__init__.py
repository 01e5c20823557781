"""What changes between two plans, for a review."""
