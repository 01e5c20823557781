"""The findings that every renderer is tested on: each a way in which a file, a message or a place can be awkward."""

from __future__ import annotations

from admc.base.findings.report import Report
from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity
from dsl.text import SourceText, Span


def at(text: str, what: str, path: str = "policies.adm", occurrence: int = 0) -> Span:
    """The span of `what` in `text`."""
    start = -1
    for _ in range(occurrence + 1):
        start = text.index(what, start + 1)
    return Span(SourceText(path, text), start, start + len(what))


SHOP = """\
app shop

service cart { http 8080 }
policy quota = rate_limit(requests: 5, per: 1s) on * -> crat
policy quota = retry(attempts: 3)               on * -> cart
"""

TABS = "app x\n\tpolicy\tq = retry(attempts: x)\ton * -> cart\n"
LONG = "policy q = allow(callers: [" + ", ".join(f"service_{i}" for i in range(3000)) + "]) on * -> cart\n"
WIDE = 'policy q = set_request_header(name: "日本語", value: é) on * -> carté\n'
HOSTILE = "policy \x1b[2J\x1b]0;owned\x07 = retry() on * -> \u202ecart\r\n"

CASES: dict[str, Report] = {
    "nothing": Report((), 0),
    "error_with_hint": Report(
        (
            Diagnostic(
                "ADM101",
                Severity.ERROR,
                "no service or external `crat`",
                at(SHOP, "crat"),
                cause="a scope selects declared names only",
                hint="did you mean `cart`?",
            ),
        ),
        1,
    ),
    "related_lines_in_a_folder": Report(
        (
            Diagnostic(
                "ADM102",
                Severity.ERROR,
                "`quota` is declared twice",
                at(SHOP, "quota", occurrence=1),
                related=(Related(at(SHOP, "quota"), "first declared here"),),
            ),
            Diagnostic("ADM401", Severity.WARNING, "`quota` applies to nothing", at(SHOP, "* -> crat")),
            Diagnostic("ADM423", Severity.NOTE, "`quota` limits each attempt", at(SHOP, "retry")),
        ),
        1,
        "examples/my shop",
    ),
    "no_place": Report(
        (Diagnostic("ADM801", Severity.ERROR, "no such option: `--frmat`", None, hint="`admc --help` shows more"),), 1
    ),
    "tabs": Report((Diagnostic("ADM201", Severity.ERROR, "`x` is no whole number", at(TABS, "x)")),), 1),
    "long_line": Report(
        (Diagnostic("ADM101", Severity.ERROR, "no service `service_1500`", at(LONG, "service_1500")),), 1
    ),
    "wide_characters": Report((Diagnostic("ADM201", Severity.ERROR, "`é` is no string", at(WIDE, "é)")),), 1),
    "several_lines": Report(
        (Diagnostic("ADM001", Severity.ERROR, "a block that does not end", at(SHOP, "cart { http 8080 }\npolicy")),), 1
    ),
    "end_of_file": Report(
        (Diagnostic("ADM001", Severity.ERROR, "the file ends too early", Span(SourceText("a.adm", "app"), 3, 3)),), 1
    ),
    "nothing_to_show": Report(
        (
            Diagnostic("ADM506", Severity.ERROR, "`g.json` is not JSON", Span(SourceText("g.json", "\n  \n"), 3, 3)),
            Diagnostic(
                "ADM102",
                Severity.ERROR,
                "`quota` is declared twice",
                at(SHOP, "quota"),
                related=(Related(Span(SourceText("a.adm", ""), 0, 0), "first declared here"),),
            ),
        ),
        1,
    ),
    "hostile": Report(
        (
            Diagnostic(
                "ADM001",
                Severity.ERROR,
                "unexpected `\x1b[2J\n::error file=x::owned`",
                at(HOSTILE, "\x1b[2J\x1b]0;owned\x07", path="a\n::warning::,:%.adm"),
                cause="`<script>alert(1)</script>` | **bold** @everyone\r\n::set-output name=x::y",
                hint="`[link](javascript:x)` ``tick`` \ud800",
            ),
        ),
        1,
    ),
}
