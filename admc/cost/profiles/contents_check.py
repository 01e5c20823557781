"""Checks the fields of a profile against each other: names are declared, figures lie in their intervals, rates ascend.

    Profile as it was read -> [Profile in its canonical order], or diagnostics

The types in `profile.py` bound each field alone, and `checks.py`, which is called here, checks the figures of one
hop or component against each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from admc.cost.profiles import checks
from admc.cost.profiles.profile import (
    CPU,
    QUANTITIES,
    ComponentCost,
    Curve,
    Figure,
    Knot,
    Part,
    Profile,
    Sizes,
    component_order,
    law,
    protocol_order,
)
from admc.cost.profiles.vocabulary import kinds_of_component, known_components, read_argument
from dsl.diagnostics.diagnostic import Severity
from dsl.documents import fields_of
from dsl.documents.exact_json import without_mark
from dsl.documents.json_text import Places
from dsl.text import Span
from dsl.units import BadNumber

if TYPE_CHECKING:
    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.documents.json_text import Path
    from dsl.program import Kind
    from dsl.text import SourceText

SHAPE: Final = "ADM861"
FIGURE: Final = "ADM862"
NAME: Final = "ADM864"
TWICE: Final = "ADM870"


def checked(profile: Profile, source: SourceText, diagnostics: Diagnostics) -> Profile | None:
    """The profile in its canonical order, with arguments in the form of `vocabulary.written`; None after errors."""
    before = diagnostics.errors
    checker = _Checker(profile, source, diagnostics)
    checker.own_components()
    for name, figure in fields_of(profile.sidecar):
        checker.figure(figure, ("sidecar", name))
    for index in range(len(profile.hops)):
        checker.hop(index)
    components = checker.components()
    if diagnostics.errors > before:
        return None
    return replace(
        profile,
        own_components=tuple(sorted(profile.own_components)),
        hops=tuple(sorted(profile.hops, key=protocol_order)),
        components=tuple(sorted(components, key=component_order)),
    )


class _Checker:
    def __init__(self, profile: Profile, source: SourceText, diagnostics: Diagnostics) -> None:
        self.profile = profile
        self.source = source
        self.diagnostics = diagnostics
        self.places = Places(without_mark(source.text))

    def error(
        self,
        code: str,
        message: str,
        path: Path,
        hint: str | None = None,
        cause: str | None = None,
        *,
        key: bool = False,
    ) -> None:
        """Report an error at the value of a path, or with `key` at the last key of the path."""
        if self.diagnostics.full:
            self.diagnostics.drop(Severity.ERROR)
            return
        start = self.places.key(path) if key else self.places.of(path)
        span = Span(self.source, *self.places.range(start))
        self.diagnostics.error(code, message, span, hint=hint, cause=cause)

    def unknown(self, message: str, name: str, known: Collection[str], path: Path, *, key: bool = False) -> None:
        listed = ", ".join(f"`{known_name}`" for known_name in list(known)[:20])
        hint = self.diagnostics.did_you_mean(name, known) or f"known are {listed}"
        self.error(NAME, message, path, hint, key=key)

    def own_components(self) -> None:
        names = self.profile.own_components
        for index, name in enumerate(names):
            if name in known_components():
                self.error(SHAPE, f"`{name}` is one of the built-in kinds", ("own_components", index))
            elif name in names[:index]:
                self.error(TWICE, f"the component `{name}` is given twice", ("own_components", index))

    # ---- figures ----

    def figure(self, figure: Figure | Knot | None, path: Path) -> None:
        if figure is None or figure.interval is None:
            return
        low, high = figure.interval
        if not low <= figure.value <= high:
            self.error(FIGURE, f"the interval does not contain its value `{figure.value}`", (*path, "interval"))

    def sizes(self, sizes: Sizes | None, path: Path) -> None:
        if sizes is not None and sizes.low > sizes.high:
            self.error(FIGURE, f"`low` is more than `high`: {sizes.low} and {sizes.high}", (*path, "sizes", "low"))

    def laws(self, cost: Part | ComponentCost, path: Path) -> None:
        for quantity in QUANTITIES:
            costs = law(cost, quantity)
            if costs is None:
                continue
            self.curve(costs.base, (*path, quantity, "base"))
            self.curve(costs.per_byte or (), (*path, quantity, "per_byte"))
            if quantity == CPU and any(knot.rate is None for knot in (*costs.base, *(costs.per_byte or ()))):
                self.error(FIGURE, "the CPU lacks its rate", (*path, quantity), cause="CPU is given as cores at a rate")

    def curve(self, curve: Curve, path: Path) -> None:
        before = None
        for index, knot in enumerate(curve):
            self.figure(knot, (*path, index))
            if knot.rate is None and len(curve) > 1:
                hint = "only a single figure may lack its rate"
                self.error(FIGURE, "the rate is missing", (*path, index, "rate"), hint)
            elif before is not None and knot.rate is not None and knot.rate <= before:
                self.error(FIGURE, f"rates ascend, and `{knot.rate}` follows `{before}`", (*path, index, "rate"))
            else:
                before = knot.rate

    def holds(self, problem: checks.Problem | None, path: Path) -> None:
        if problem is not None:
            self.error(problem.code, problem.message, path, problem.hint, problem.cause)

    # ---- hops ----

    def hop(self, index: int) -> None:
        hop, path = self.profile.hops[index], ("hops", index)
        if any(other.protocol is hop.protocol for other in self.profile.hops[:index]):
            self.error(TWICE, f"the base of {hop.title} is given twice", path)
        before = self.diagnostics.errors
        self.sizes(hop.sizes, path)
        names = [part.name for part in hop.parts]
        for at, part in enumerate(hop.parts):
            place = (*path, "parts", at)
            if part.name not in self.profile.parts:
                self.unknown(f"there is no part `{part.name}`", part.name, self.profile.parts, (*place, "name"))
            if part.name in names[:at]:
                self.error(TWICE, f"the part `{part.name}` is given twice", place)
            self.laws(part, place)
        if self.diagnostics.errors == before:
            self.holds(checks.hop_problem(hop), path)

    # ---- components ----

    def components(self) -> list[ComponentCost]:
        costs: dict[tuple[object, ...], ComponentCost] = {}
        for index, written in enumerate(self.profile.components):
            path = ("components", index)
            cost = self.component(written, path)
            if cost is None:
                continue
            order = component_order(cost)
            if order in costs:
                self.error(TWICE, f"the cost of {cost.title} is given twice", path)
            unclear = next((other for other in costs.values() if checks.unclear(cost, other)), None)
            if unclear is not None:
                message = f"{cost.title} and {unclear.title} may be for the same policy, and neither is more specific"
                self.error(TWICE, message, path, "give both the same arguments, or one of them more")
            costs[order] = cost
        return list(costs.values())

    def component(self, cost: ComponentCost, path: Path) -> ComponentCost | None:
        before = self.diagnostics.errors
        name = cost.component
        known = (*known_components(), *self.profile.own_components)
        kinds = kinds_of_component(name)
        if name not in known:
            hint = self.diagnostics.did_you_mean(name, known) or "name a component of your own in `own_components`"
            self.error(NAME, f"there is no component `{name[:60]}`", (*path, "component"), hint)
        elif cost.kind is not None and cost.kind not in kinds:
            self.unknown(f"there is no kind `{cost.kind[:60]}`", cost.kind, kinds, (*path, "kind"))
        kind = cost.kind if cost.kind in kinds else None
        arguments = self.arguments(replace(cost, kind=kind), kinds, (*path, "arguments"))
        self.sizes(cost.sizes, path)
        self.laws(cost, path)
        self.figure(cost.memory, (*path, "memory"))
        if self.diagnostics.errors > before:
            return None
        changed = replace(cost, arguments=arguments)
        self.holds(checks.component_problem(changed), path)
        return changed

    def arguments(self, cost: ComponentCost, kinds: Mapping[str, Kind], path: Path) -> Mapping[str, str]:
        """The arguments by name, in the form of `vocabulary.written`. A component of the user's own may have any."""
        if not kinds:
            return dict(sorted(cost.arguments.items()))
        chosen = [declared for name, declared in kinds.items() if cost.kind in (None, name)]
        types = {parameter.name: parameter.type for declared in chosen for parameter in declared.parameters}
        arguments: dict[str, str] = {}
        for name, value in sorted(cost.arguments.items()):
            place = (*path, name)
            if name not in types:
                self.unknown(f"`{cost.component}` has no parameter `{name[:40]}`", name, types, place, key=True)
            elif types[name].items and value not in types[name].items:
                self.unknown(f"there is no value of `{name}` `{value[:60]}`", value, types[name].items, place)
            else:
                argument = read_argument(value, types[name])
                if isinstance(argument, BadNumber):
                    self.error(
                        FIGURE, f"the argument `{name}` cannot be used: {argument.message}", place, argument.hint
                    )
                else:
                    arguments[name] = argument
        return arguments
