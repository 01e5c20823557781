"""Comments on pull requests: the differences of all programs of a change in one comment.

    Markdown --body--> text with a tag --post--> a new comment, or that of an earlier run --github--> GitHub's API

A run never replaces the comment of a newer run.
"""
