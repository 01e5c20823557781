"""Compares two profiles: latency and CPU of hops, of the parts that both have and of components, and the figures of
sidecars. Figures of the two are never added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from admc.base.decimals import fixed
from admc.cost.profiles.law import Function, function, total
from admc.cost.profiles.profile import LATENCY, QUANTITIES, HopCost, Law, Profile, Sizes, law
from dsl.documents import MAX_PLACES, fields_of
from dsl.program import Protocol


class Cell(NamedTuple):
    """A figure of one profile: latency and CPU in microseconds for one request, memory in bytes, idle CPU in cores."""

    value: float
    extrapolated: bool = False
    """The profile was not measured at this rate or size, or does not state at which it was."""


class Row(NamedTuple):
    """One figure in both profiles; None where a profile has none."""

    subject: str
    quantity: str
    rate: Decimal | None
    size: int | None
    one: Cell | None
    other: Cell | None

    @property
    def ratio(self) -> float | None:
        if self.one is None or self.other is None or not self.one.value:
            return None
        return self.other.value / self.one.value


class Difference(NamedTuple):
    one: Profile
    other: Profile
    rows: tuple[Row, ...]
    caution: tuple[str, ...]
    """The reasons for which the figures of the two may not be comparable."""


class _Costs(NamedTuple):
    """The laws of a hop, a part or a component of one profile."""

    laws: tuple[Law | None, ...]
    sizes: Sizes | None


def difference(one: Profile, other: Profile) -> Difference:
    rows = [row for protocol in Protocol for row in _hops(protocol, one.hop(protocol), other.hop(protocol))]
    return Difference(
        one, other, (*rows, *_components(one, other), *_sidecars(one, other)), tuple(cautions(one, other))
    )


def cautions(one: Profile, other: Profile) -> Iterator[str]:
    for what, a, b in (
        ("latencies", one.method.statistic, other.method.statistic),
        ("machines", one.platform.machine, other.platform.machine),
        ("systems", one.platform.system, other.platform.system),
        ("proxies", str(one.proxy), str(other.proxy)),
    ):
        if a != b:
            yield f"other {what}: {a}; {b}"


def _hops(protocol: Protocol, one: HopCost | None, other: HopCost | None) -> Iterator[Row]:
    if one is None and other is None:
        return
    for quantity in QUANTITIES:
        wholes = [None if hop is None else _whole(hop, quantity) for hop in (one, other)]
        yield from _rows(f"hop {protocol}", quantity, *wholes)
    if one is None or other is None:
        return
    others = {part.name: part for part in other.parts}
    for part in one.parts:
        if part.name in others:
            for quantity in QUANTITIES:
                costs = [
                    _Costs((law(part, quantity),), one.sizes),
                    _Costs((law(others[part.name], quantity),), other.sizes),
                ]
                yield from _rows(f"hop {protocol}: {part.name}", quantity, *costs)


def _whole(hop: HopCost, quantity: str) -> _Costs:
    return _Costs(tuple(law(part, quantity) for part in hop.bases(quantity)), hop.sizes)


def _components(one: Profile, other: Profile) -> Iterator[Row]:
    sides = [{cost.title: cost for cost in profile.components} for profile in (one, other)]
    for title in sorted({*sides[0], *sides[1]}):
        for quantity in QUANTITIES:
            costs = [
                None if title not in by_title else _Costs((law(by_title[title], quantity),), by_title[title].sizes)
                for by_title in sides
            ]
            yield from _rows(f"component {title}", quantity, *costs)


def _sidecars(one: Profile, other: Profile) -> Iterator[Row]:
    for (name, figure), (_, compared) in zip(fields_of(one.sidecar), fields_of(other.sidecar), strict=True):
        figures = (figure, compared)
        if any(figure is not None for figure in figures):
            cells = [None if figure is None else Cell(float(figure.value)) for figure in figures]
            quantity = "cores" if name == "idle_cpu" else "bytes"
            yield Row(f"sidecar {name}", quantity, None, None, *cells)


def _rows(subject: str, quantity: str, one: _Costs | None, other: _Costs | None) -> Iterator[Row]:
    """One row for each rate of either profile, at the reference size of the first profile that has sizes."""
    prepared = [_functions(quantity, costs) for costs in (one, other)]
    if not any(prepared):
        return
    sizes = next((costs.sizes for costs in (one, other) if costs is not None and costs.sizes is not None), None)
    size = None if sizes is None else int(sizes.reference)
    stated = sorted(
        {rate for functions in prepared for cost_function in functions or () for rate in cost_function.base.rates or ()}
    )
    for rate in (*stated,) or (None,):
        cells = [None if functions is None else _cell(functions, quantity, rate, size) for functions in prepared]
        shown = None if rate is None else Decimal(fixed(rate, MAX_PLACES))
        yield Row(subject, quantity, shown, size, *cells)


def _functions(quantity: str, costs: _Costs | None) -> Sequence[Function] | None:
    """The functions of all laws; None if a law is missing, because a sum without it would be too low."""
    if costs is None or not costs.laws or None in costs.laws:
        return None
    return [function(quantity, cost_law, costs.sizes) for cost_law in costs.laws if cost_law is not None]


def _cell(functions: Iterable[Function], quantity: str, rate: float | None, size: int | None) -> Cell:
    estimates = [cost_function.estimate(rate, size) for cost_function in functions]
    value = total(estimate.amount for estimate in estimates).value
    outside = any(estimate.rate_outside or estimate.size_outside for estimate in estimates)
    return Cell(value if quantity == LATENCY else value * 1_000_000, outside)
