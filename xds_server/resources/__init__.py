"""Resources and snapshots of them, checked before they are published, and kept for each group of clients."""
