"""What an estimate lacks, and where it is extrapolated: one line for each reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from admc.base.terminal import visible
from admc.cost.model.overhead import Extrapolated, Lack, Missing

SUBJECTS: Final = 12
"""Subjects of one line."""
_NO_FIGURE: Final = "the profile has no figure for"
_TEXTS: Final = {
    Lack.COMPONENT: _NO_FIGURE,
    Lack.HOP: _NO_FIGURE,
    Lack.BYTES: "the profile has no cost of bytes for",
    Lack.RATE: "without a rate, so without CPU",
    Lack.SIZE: "without a size, so without a cost of bytes",
    Lack.IDLE: "the profile has no CPU of an idle sidecar",
    Lack.MEMORY: "the profile lacks figures of memory",
    Lack.FLOOR: "measured with a script that does nothing",
    Lack.SATURATED: "saturated, so without latency",
}


def notes(missing: Iterable[Missing], extrapolated: Iterable[Extrapolated], when: str = "") -> list[str]:
    """`when`: words after `missing` and `extrapolated`, with a blank before them."""
    lacks, outside = phrases(missing), _outside(extrapolated)
    return [
        *([f"missing{when}, so that sums are lower bounds (`>=`):", *(f"  {line}" for line in lacks)] if lacks else []),
        *([f"extrapolated{when}, beyond what was measured:", *(f"  {line}" for line in outside)] if outside else []),
    ]


def phrases(missing: Iterable[Missing]) -> list[str]:
    """`the profile has no cost of bytes for: grpc hop, tcp hop`."""
    found: dict[str, list[str]] = {}
    for each in missing:
        subjects = found.setdefault(_TEXTS[each.lack], [])
        if each.lack is Lack.SATURATED:
            subjects += each.services
        elif each.lack not in (Lack.IDLE, Lack.MEMORY):
            subjects.append(each.subject)
    return [_listed(text, subjects) for text, subjects in found.items()]


def _outside(extrapolated: Iterable[Extrapolated]) -> list[str]:
    found: dict[str, list[str]] = {}
    for each in extrapolated:
        found.setdefault(f"in the {each.what}", []).append(each.subject)
    return [_listed(text, subjects) for text, subjects in found.items()]


def _listed(text: str, subjects: list[str]) -> str:
    if not subjects:
        return text
    more = len(subjects) - SUBJECTS
    return f"{text}: {', '.join(visible(name) for name in subjects[:SUBJECTS])}" + (
        f" and {more} more; `--format json` has them all" if more > 0 else ""
    )
