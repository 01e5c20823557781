"""Multiplies figures of a profile.

    Profile, changes -> [text of the changed profile]

The reader of profiles checks the text. Different factors for the parts of a hop may give a profile in which the CPU of
a request rises with the rate. The reader refuses such a profile (`ADM867`), because the solver's figures would no
longer be upper bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Final

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.cost.profiles.profile import (
    CPU,
    LATENCY,
    WHOLE,
    ComponentCost,
    Curve,
    Figure,
    HopCost,
    Knot,
    Law,
    Part,
    Profile,
    law,
)
from admc.cost.profiles.read import read_profile
from admc.cost.profiles.vocabulary import known_components
from admc.cost.profiles.write import to_json
from admc.cost.what_if.changes import CODE, MEMORY, Change
from dsl.diagnostics.diagnostic import Diagnostics, did_you_mean
from dsl.documents import MAX_PLACES, fields_of
from dsl.text import SourceText
from dsl.words import few

SIDECAR: Final = "sidecar"
"""The name for the idle CPU, and for all memory that is not given for a component."""
NAMED: Final = 20
"""The most names in a message."""
_EXACT: Final = Context(prec=200)
_FINEST: Final = Decimal(1).scaleb(-MAX_PLACES)


def changed(profile: Profile, changes: Sequence[Change]) -> SourceText:
    """The JSON of the profile with the changes. Raises `CommandError` (exit 1)."""
    changed_profile = profile
    with localcontext(_EXACT):
        for change in changes:
            _check(profile, change)
            changed_profile = _with(changed_profile, change)
    text = SourceText(f"{profile.name}.json", to_json(changed_profile))
    diagnostics = Diagnostics()
    if read_profile(text, diagnostics) is None:
        quoted = " ".join(f"`{change.text}`" for change in changes)
        problems = [
            replace(
                diagnostic,
                message=f"the profile cannot be changed by {quoted}: {diagnostic.message}",
                span=None,
                related=(),
            )
            for diagnostic in diagnostics.items
        ]
        raise CommandError(Exit.INPUT, problems)
    return text


def _with(profile: Profile, change: Change) -> Profile:
    sidecar = profile.sidecar
    if change.name == SIDECAR and change.quantity == CPU:
        sidecar = replace(sidecar, idle_cpu=_figure(sidecar.idle_cpu, change.factor))
    elif change.name == SIDECAR and change.quantity == MEMORY:
        memory = {name: figure for name, figure in fields_of(sidecar) if name != "idle_cpu"}
        sidecar = replace(sidecar, **{name: _figure(figure, change.factor) for name, figure in memory.items()})
    return replace(
        profile,
        sidecar=sidecar,
        hops=tuple(_hop(hop, change) for hop in profile.hops),
        components=tuple(_component(cost, change) for cost in profile.components),
    )


def _hop(hop: HopCost, change: Change) -> HopCost:
    """A change of `whole` changes all parts. After a change of another part, `whole` becomes the new sum."""
    names = {change.name} if hop.whole is None or change.name != WHOLE else {part.name for part in hop.parts}
    changed_hop = replace(hop, parts=tuple(_part(part, change) if part.name in names else part for part in hop.parts))
    if changed_hop == hop or changed_hop.whole is None:
        return changed_hop
    summed = Part(WHOLE, _summed(changed_hop, changed_hop.whole, LATENCY), _summed(changed_hop, changed_hop.whole, CPU))
    return replace(changed_hop, parts=tuple(summed if part.name == WHOLE else part for part in changed_hop.parts))


def _part(part: Part, change: Change) -> Part:
    latency = _law(part.latency, change.factor) if change.quantity == LATENCY else part.latency
    return Part(part.name, latency, _law(part.cpu, change.factor) if change.quantity == CPU else part.cpu)


def _summed(hop: HopCost, whole: Part, quantity: str) -> Law | None:
    """The law of `whole`, scaled to the sum of the changed parts."""
    own = law(whole, quantity)
    parts = [part_law for part in hop.shares(quantity) if (part_law := law(part, quantity)) is not None]
    if own is None:
        return None
    slopes = [part.per_byte or () for part in parts]
    return Law(_sum(own.base, [part.base for part in parts]), own.per_byte and _sum(own.per_byte, slopes))


def _sum(curve: Curve, parts: Sequence[Curve]) -> Curve:
    """Return the curve with the sum of the parts as the figure of each knot. The interval of a figure moves by the same
    amount as the figure, so its width stays the same."""
    moved = []
    for knot, *shares in zip(curve, *parts, strict=True):
        value = sum((share.value for share in shares), Decimal(0))
        by = value - knot.value
        interval = None if knot.interval is None else (knot.interval[0] + by, knot.interval[1] + by)
        moved.append(Knot(knot.rate, value, interval))
    return tuple(moved)


def _component(cost: ComponentCost, change: Change) -> ComponentCost:
    if cost.component != change.name:
        return cost
    if change.quantity == MEMORY:
        return replace(cost, memory=_figure(cost.memory, change.factor))
    if change.quantity == LATENCY:
        return replace(cost, latency=_law(cost.latency, change.factor))
    return replace(cost, cpu=_law(cost.cpu, change.factor))


def _law(law: Law | None, factor: Decimal) -> Law | None:
    if law is None:
        return None
    return Law(_curve(law.base, factor), None if law.per_byte is None else _curve(law.per_byte, factor))


def _curve(curve: Curve, factor: Decimal) -> Curve:
    return tuple(Knot.of(knot.rate, _times(knot.figure, factor)) for knot in curve)


def _figure(figure: Figure | None, factor: Decimal) -> Figure | None:
    return None if figure is None else _times(figure, factor)


def _times(figure: Figure, factor: Decimal) -> Figure:
    low = None if figure.low is None else _written(figure.low * factor, ROUND_FLOOR)
    high = None if figure.high is None else _written(figure.high * factor, ROUND_CEILING)
    return Figure.of(_written(figure.value * factor, ROUND_HALF_EVEN), low, high)


def _written(value: Decimal, rounding: str) -> Decimal:
    """Round to the digits that a profile may have: a product can have more digits than the figure."""
    exponent = value.as_tuple().exponent
    return value if isinstance(exponent, int) and exponent >= -MAX_PLACES else value.quantize(_FINEST, rounding)


# ---- names ----


def _check(profile: Profile, change: Change) -> None:
    """Check that the profile has the figures that a change multiplies. Raises `CommandError` (exit 1)."""
    having = {name for name in _names(profile) if _has(profile, name, None)}
    name = change.name
    if name not in having:
        known = {*profile.parts, *profile.own_components, *known_components(), *having, SIDECAR}
        # Parts come first: they are few, and every change of a hop is about one of them.
        names = sorted(having, key=lambda candidate: (candidate not in profile.parts, candidate))
        listed = "it has figures of " + few([f"`{candidate}`" for candidate in names], NAMED)
        if name in known:
            raise wrong_usage(CODE, f"the profile `{profile.name}` has no figure of `{name}`", hint=listed)
        hint = did_you_mean(name, sorted(having)) or did_you_mean(name, sorted(known)) or listed
        raise wrong_usage(
            CODE, f"there is no part or component `{name[:60]}`, in `--what-if {change.text[:100]}`", hint=hint
        )
    if not _has(profile, name, change.quantity):
        only = [quantity for quantity in (LATENCY, CPU, MEMORY) if _has(profile, name, quantity)]
        hint = "it has its " + " and ".join(f"`{quantity}`" for quantity in only)
        if name in profile.parts and _has(profile, WHOLE, change.quantity):
            hint += f"; {change.quantity} was measured of all parts together: `{WHOLE}.{change.quantity}`"
        raise wrong_usage(CODE, f"the profile `{profile.name}` has no {change.quantity} of `{name}`", hint=hint)


def _names(profile: Profile) -> set[str]:
    parts = {part.name for hop in profile.hops for part in hop.parts}
    return {*parts, *(cost.component for cost in profile.components), SIDECAR}


def _has(profile: Profile, name: str, quantity: str | None) -> bool:
    """Whether the profile has a figure of a part, a component or the sidecar: of the quantity, or of any if None."""
    figures: dict[str, list[object]] = {LATENCY: [], CPU: [], MEMORY: []}
    for part in (part for hop in profile.hops for part in hop.parts if part.name == name):
        figures[LATENCY].append(part.latency)
        figures[CPU].append(part.cpu)
    for cost in (cost for cost in profile.components if cost.component == name):
        figures[LATENCY].append(cost.latency)
        figures[CPU].append(cost.cpu)
        figures[MEMORY].append(cost.memory)
    if name == SIDECAR:
        figures[CPU].append(profile.sidecar.idle_cpu)
        figures[MEMORY] += [figure for name, figure in fields_of(profile.sidecar) if name != "idle_cpu"]
    return any(figure is not None for key in figures if quantity in (None, key) for figure in figures[key])
