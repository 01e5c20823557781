"""Prepares a profile for one program: the cost of a request at a hop, and by a policy, at the rate of the sidecar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from admc.cost.profiles.law import Estimate, Function, function, load_of, together, total
from admc.cost.profiles.profile import CPU, LATENCY, QUANTITIES, ComponentCost, Part, Profile, Sizes, law
from admc.cost.profiles.vocabulary import written
from dsl.program import Policy, Protocol, Side


class Traffic(NamedTuple):
    """The requests that pass a hop, or those of them in a policy's scope. Rates are sums over all replicas."""

    rate: float
    """Sum of the rates that are known."""
    by_size: Mapping[int | None, float]
    """The known rates by the size of messages; the key None stands for calls without a size."""
    calls: int
    unrated: int
    """Calls without a rate."""

    @property
    def unsized(self) -> bool:
        return None in self.by_size


class PartFunctions(NamedTuple):
    """The functions of a part of a hop, or of a component, by quantity; None for a quantity that was not measured.
    In `Prices.bases` each has one quantity."""

    name: str
    functions: Mapping[str, Function | None]

    def depends_on_rate(self, quantity: str) -> bool:
        cost_function = self.functions[quantity]
        return cost_function is not None and cost_function.depends_on_rate


class Prices:
    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._chosen: dict[tuple[str, Protocol, Side], ComponentCost | None] = {}
        self._functions: dict[int, PartFunctions] = {}
        self._written: dict[str, dict[str, str]] = {}

    @cached_property
    def hops(self) -> Mapping[Protocol, tuple[PartFunctions, ...]]:
        """The parts of a hop, by each protocol that the profile has. The part `whole` has no functions here where other
        parts add up to it."""
        return {
            hop.protocol: tuple(
                PartFunctions(
                    part.name,
                    {
                        quantity: _function(part, quantity, hop.sizes) if part in hop.shares(quantity) else None
                        for quantity in QUANTITIES
                    },
                )
                for part in hop.parts
            )
            for hop in self.profile.hops
        }

    @cached_property
    def bases(self) -> Mapping[tuple[Protocol, str], tuple[PartFunctions, ...]]:
        """The parts whose sum is the base of a hop, by protocol and quantity: those of `hops`, or `whole` alone."""
        return {
            (hop.protocol, quantity): self.hops[hop.protocol]
            if hop.whole is None
            else tuple(
                PartFunctions(part.name, {quantity: _function(part, quantity, hop.sizes)})
                for part in hop.bases(quantity)
            )
            for hop in self.profile.hops
            for quantity in QUANTITIES
        }

    @cached_property
    def lacking(self) -> Mapping[tuple[Protocol, str], str]:
        """The parts that were not measured, by protocol and quantity, as text: `ipc, parse of grpc hop`."""
        subjects = {}
        for (protocol, quantity), parts in self.bases.items():
            names = [part.name for part in parts if part.functions[quantity] is None]
            if names:
                of = "" if len(names) == len(parts) else f"{', '.join(names)} of "
                subjects[protocol, quantity] = f"{of}{protocol} hop"
        return subjects

    @cached_property
    def whole_hops(self) -> Mapping[tuple[Protocol, str], Function]:
        """All measured parts of a hop as one function, by protocol and quantity."""
        known = {
            (protocol, quantity): [
                cost_function for part in parts if (cost_function := part.functions[quantity]) is not None
            ]
            for (protocol, quantity), parts in self.bases.items()
        }
        return {key: together(functions) for key, functions in known.items() if functions}

    @cached_property
    def _outermost(self) -> tuple[float, float] | None:
        """The lowest and the highest rate of all figures; None if no figure has a rate."""
        parts = [
            *(part for parts in self.bases.values() for part in parts),
            *map(self.functions, self.profile.components),
        ]
        functions = [known for part in parts for known in part.functions.values() if known is not None]
        lines = [line for known in functions for line in (known.base, known.slope) if line is not None]
        rates = [rate for line in lines for rate in line.rates or ()]
        return (min(rates), max(rates)) if rates else None

    def equivalent(self, rate: float | None) -> float | None:
        """A rate at which the profile has the same figures as at `rate`; None without a rate, or if no figure has one.

        All rates far below those of the profile become one rate, and so do all rates far above, so that figures which
        are kept by their rate are used again."""
        if rate is None or self._outermost is None:
            return None
        lowest, highest = self._outermost
        return min(max(rate, lowest / 2), highest * 2)

    @property
    def highest_rate(self) -> float | None:
        """The highest rate of all figures; None if its figures have no rates. The CPU of a request falls as the rate of
        the sidecar rises, so the figures at this rate are lower bounds for a sidecar whose rate is unknown."""
        return None if self._outermost is None else self._outermost[1]

    def complete(self, protocol: Protocol, quantity: str) -> bool:
        """Whether all parts of a hop were measured."""
        parts = self.bases.get((protocol, quantity), ())
        return bool(parts) and all(part.functions[quantity] is not None for part in parts)

    def slope_known(self, protocol: Protocol, quantity: str) -> bool:
        """Whether the cost of bytes at a hop is known. One part with it is enough: it may be that of all parts."""
        functions = (part.functions[quantity] for part in self.bases[protocol, quantity])
        return any(cost_function is not None and cost_function.slope is not None for cost_function in functions)

    def sum_of(self, costs: Iterable[Estimate | None], protocol: Protocol, quantity: str) -> Estimate:
        """The sum of the known costs of the parts of a hop, which share their errors."""
        known = [cost for cost in costs if cost is not None]
        return Estimate(
            total([cost.amount for cost in known]),
            any(cost.rate_outside for cost in known),
            any(cost.size_outside for cost in known),
            any(cost.no_slope for cost in known) and not self.slope_known(protocol, quantity),
        )

    def component(self, policy: Policy, protocol: Protocol, side: Side) -> ComponentCost | None:
        """The most specific entry of the profile for a policy; None if no entry fits."""
        key = policy.name, protocol, side
        if key not in self._chosen:
            fitting = [
                cost for cost in self._by_component.get(policy.kind.component or "", ()) if cost.protocol is protocol
            ]
            fitting = [cost for cost in fitting if self._fits(cost, policy, side)]
            self._chosen[key] = max(fitting, key=_specific, default=None)
        return self._chosen[key]

    @cached_property
    def _by_component(self) -> Mapping[str, Sequence[ComponentCost]]:
        by_component: dict[str, list[ComponentCost]] = {}
        for cost in self.profile.components:
            by_component.setdefault(cost.component, []).append(cost)
        return by_component

    def _fits(self, cost: ComponentCost, policy: Policy, side: Side) -> bool:
        if cost.side not in (None, side) or cost.kind not in (None, policy.kind.name):
            return False
        if not cost.arguments:
            return True
        values = self._written.get(policy.name)
        if values is None:
            values = self._written[policy.name] = {name: written(value) for name, value in policy.arguments.items()}
        return all(values.get(name) == value for name, value in cost.arguments.items())

    def functions(self, cost: ComponentCost) -> PartFunctions:
        part_functions = self._functions.get(id(cost))
        if part_functions is None:
            laws = {quantity: law(cost, quantity) for quantity in QUANTITIES}
            prepared = {
                quantity: None if cost_law is None else function(quantity, cost_law, cost.sizes)
                for quantity, cost_law in laws.items()
            }
            part_functions = self._functions[id(cost)] = PartFunctions(cost.component, prepared)
        return part_functions


def _specific(cost: ComponentCost) -> tuple[int, bool, bool]:
    return len(cost.arguments), cost.kind is not None, cost.side is not None


def cpu_of(parts: Sequence[PartFunctions], rate: float | None, traffic: Traffic) -> list[Estimate | None]:
    """The cores that each part of one hop takes for some traffic, in a sidecar whose replicas each work at `rate`; None
    for a part that was not measured."""
    functions = [part.functions[CPU] for part in parts]
    sizes = next((known.sizes for known in functions if known is not None), None)  # all parts have the sizes of the hop
    load = load_of(sizes, traffic.by_size, traffic.rate)
    return [None if known is None else known.of_load(rate, load) for known in functions]


def latency_of(part: PartFunctions, rate: float | None, size: int | None) -> Estimate | None:
    cost_function = part.functions[LATENCY]
    return None if cost_function is None else cost_function.estimate(rate, size)


def _function(part: Part, quantity: str, sizes: Sizes | None) -> Function | None:
    part_law = law(part, quantity)
    return None if part_law is None else function(quantity, part_law, sizes)
