"""Computes what CPU and latency of a hop have in common: the base with its parts, sums of figures that share an error,
and notes about missing figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from admc.cost.model.layout import LoadedHop
from admc.cost.model.overhead import Lack, Notes
from admc.cost.model.prices import Prices
from admc.cost.model.traffic import Traffics
from admc.cost.profiles.amounts import Whole, added, independently_added, shares
from admc.cost.profiles.law import Estimate
from dsl.program import Program, Protocol


class Base(NamedTuple):
    """The base of a hop and its parts, in the order of the profile; None where a figure is not known. `parts` is empty
    if the profile has no such hop."""

    whole: Whole | None
    parts: tuple[int | None, ...]


def split(base: Whole, estimates: Sequence[Estimate | None], factor: int) -> tuple[int | None, ...]:
    """Round the figures of the parts so that they add up to the base. A part without a figure stays None."""
    rounded = iter(
        shares(base.value, [estimate.amount.value * factor for estimate in estimates if estimate is not None])
    )
    return tuple(None if estimate is None else next(rounded) for estimate in estimates)


class HopFigures:
    """Estimates one quantity at the hops of a program."""

    def __init__(self, program: Program, traffics: Traffics, prices: Prices, notes: Notes) -> None:
        self.program = program
        self.traffics = traffics
        self.prices = prices
        self.notes = notes

    def together(self, hop: LoadedHop, base: Whole | None, policies: Iterable[Whole | None]) -> Whole:
        """The sum of base and policies. Policies with the same figure share its error; others are independent."""
        by_figure: dict[int, Whole | None] = {}
        for enforced, cost in zip(hop.enforced, policies, strict=True):
            key = id(self.prices.component(enforced.policy, hop.port.protocol, hop.side))
            by_figure[key] = added((by_figure[key], cost)) if key in by_figure else cost
        return independently_added((base, *by_figure.values()))

    def parts_lack(self, hop: LoadedHop, quantity: str) -> bool:
        """Return whether a part of the base lacks a figure, and note all such parts together."""
        lacking = self.prices.lacking.get((hop.port.protocol, quantity))
        return lacking is not None and self.lacks_figure(hop, Lack.HOP, lacking, None, quantity)

    def note(self, hop: LoadedHop, subject: str, cost: Estimate) -> None:
        """Note whether the cost lacks that of bytes, and whether it is extrapolated."""
        if cost.no_slope:
            self.notes.lacks(Lack.BYTES, subject, hop.service)
        if cost.rate_outside:
            self.notes.extrapolates("rate", subject, hop.service)
        if cost.size_outside:
            self.notes.extrapolates("size", subject, hop.service)

    def lacks_figure(self, hop: LoadedHop, lack: Lack, subject: str, cost: object | None, quantity: str) -> bool:
        """Return whether a figure is missing, and note that."""
        if cost is None:
            self.notes.lacks(lack, f"{subject}: {quantity}", hop.service)
        return cost is None


def subject_of(component: str | None, kind: str, protocol: Protocol) -> str:
    return f"{component or f'kind {kind}'} ({protocol})"
