"""What outlives the process, apart from where it is kept: the manifest, and its parts as bytes."""
