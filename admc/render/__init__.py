"""One renderer for each format, all from the same report.

    diagnostics -> [Report] -> text | json | markdown | sarif | github

Every renderer is a pure function `render(report) -> str` whose result ends with a line break and is one whole
document, also when there is nothing to report.
"""
