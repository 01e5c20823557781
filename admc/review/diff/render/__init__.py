"""A difference in every format.

    Diff --headline, words, rollout--> sentences --> text | markdown | mermaid | json | sarif | junit | github

All formats, the page of `admc report` and comments share the sentences of `words` and `headline`.
"""
