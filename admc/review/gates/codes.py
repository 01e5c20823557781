"""Codes about gates: title, explanation, and examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM848": (
        "a statement of a program stands in a file of gates",
        "`shop.gates.adm` is about the program `shop.adm` beside it, and has statements that begin with `gate`, and no "
        "others. It needs no `use`: the program is found by its name.",
        "policy quota = rate_limit(requests: 5, per: 1s) on * -> cart",
        "gate safe = fail when weaker",
    ),
    "ADM849": (
        "a file has too many gates",
        "A file has at most 1,000 gates.",
    ),
    "ADM873": (
        "a gate measures something unknown",
        "A gate counts findings of `admc diff` by their word (`lost`, `narrowed`, `weaker` for all that is weaker), or "
        "it measures `adms`, `sidecars`, `restarts`, `gap`, or with a profile `cpu`, `memory` and `latency`.",
        "gate cheap = warn when price > +10%",
        "gate cheap = warn when cpu > +10%",
    ),
    "ADM874": (
        "the limit of a gate does not fit what it measures",
        "A limit with `+` is of what the change adds, in the unit of the measure or in percent of what BASE has. One "
        "without `+` is of what HEAD has. Findings and `restarts` are of the change already, so they have a plain "
        "number, or none, which means any. The limit of `gap` is a percentage.",
        "gate few = fail when adms > 10%",
        "gate few = fail when adms > +10%",
    ),
    "ADM875": (
        "`--accept` does not fit the gates",
        "`--accept GATE=REASON` accepts that a change breaches a gate. The gate has to be one of BASE, since a change "
        "cannot loosen the gates by which it is judged, and the reason is shown with the result.",
        "admc diff main policies.adm --accept saef=planned",
        "admc diff main policies.adm --accept safe=planned",
    ),
}
