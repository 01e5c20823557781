"""A difference in every format.

    Diff --headline, words, rollout--> sentences --> text | markdown | mermaid | json | sarif | junit | github

`words` and `headline` say the same in each format, on the page of `admc report`, and in a comment.
"""
