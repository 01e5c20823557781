"""Comments on pull requests: the differences of all programs of a change in one comment."""
