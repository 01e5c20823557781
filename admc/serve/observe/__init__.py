"""What the server shows of itself: HTTP, metrics, status, events, problems."""
