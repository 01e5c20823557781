"""Writing the configuration of a placement into a folder."""
