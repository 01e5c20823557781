"""Findings in every format: one renderer a format, all from the same report.

    diagnostics -> [Report] -> text | json | markdown | sarif | github | junit

Every renderer is a pure function `render(report) -> str`. It returns one whole document, which ends with a line break,
even without findings; only `text` is empty then. The renderer of SARIF also needs a function for the titles of codes.
"""
