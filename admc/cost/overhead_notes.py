"""Lists the figures that an estimate lacks, and those that it extrapolates: one line for each reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from admc.base.terminal import visible
from admc.cost.model.overhead import Extrapolated, Lack, Missing

SUBJECTS: Final = 12
"""The most subjects that one line names."""
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
    """The lines about missing and extrapolated figures. `when` is inserted after the word `missing` or `extrapolated`;
    unless it is empty, it begins with a blank."""
    lacks, outside = phrases(missing), _outside(extrapolated)
    return [
        *([f"missing{when}, so that sums are lower bounds (`>=`):", *(f"  {line}" for line in lacks)] if lacks else []),
        *([f"extrapolated{when}, beyond what was measured:", *(f"  {line}" for line in outside)] if outside else []),
    ]


def phrases(missing: Iterable[Missing]) -> list[str]:
    """One phrase for each reason, such as `the profile has no cost of bytes for: grpc hop, tcp hop`."""
    by_text: dict[str, list[str]] = {}
    for gap in missing:
        subjects = by_text.setdefault(_TEXTS[gap.lack], [])
        if gap.lack is Lack.SATURATED:
            subjects += gap.services
        elif gap.lack not in (Lack.IDLE, Lack.MEMORY):
            subjects.append(gap.subject)
    return [_listed(text, subjects) for text, subjects in by_text.items()]


def _outside(extrapolated: Iterable[Extrapolated]) -> list[str]:
    by_text: dict[str, list[str]] = {}
    for figure in extrapolated:
        by_text.setdefault(f"in the {figure.what}", []).append(figure.subject)
    return [_listed(text, subjects) for text, subjects in by_text.items()]


def _listed(text: str, subjects: list[str]) -> str:
    if not subjects:
        return text
    more = len(subjects) - SUBJECTS
    return f"{text}: {', '.join(visible(name) for name in subjects[:SUBJECTS])}" + (
        f" and {more} more; `--format json` has them all" if more > 0 else ""
    )
