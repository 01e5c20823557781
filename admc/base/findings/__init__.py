"""Findings in every format: one renderer a format, all from the same report.

    diagnostics -> [Report] -> text | json | markdown | sarif | github | junit

Every renderer is a pure function `render(report) -> str` whose result ends with a line break and is one whole
document, also when there is nothing to report. SARIF shows the titles of codes, which its caller passes.
"""
