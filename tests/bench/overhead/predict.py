"""What a profile predicts for a sidecar, and what three naive predictors do.

| naive | predicts |
|---|---|
| mean | the mean of all that the profile measured |
| bare hop | the profile's bare hops, without policies |
| constant | MeshInsight's law: CPU of a request, and latency, are those of the highest rate, whatever the rate is |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import mean
from typing import NamedTuple

from admc.cost.measurement.layout import Arm, Layout
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import Enforced, LoadedHop
from admc.cost.model.overhead import Overhead
from admc.cost.profiles.profile import CPU, LATENCY, ComponentCost, Curve, Figure, Knot, Law, Part, Profile, law
from dsl.program import Side
from tests.bench.overhead.draw import Configuration


class Cost(NamedTuple):
    """Of one request: CPU of the whole sidecar, and added median latency. Microseconds."""

    cpu: float
    latency: float


class Prediction(NamedTuple):
    value: Cost
    low: Cost | None
    high: Cost | None
    """None where a figure has no interval."""


def predictor(profile: Profile, layout: Layout) -> Callable[[Configuration], Prediction]:
    """Predictions for the sidecars of a layout.

    Its scripts are those that `admc profile measure` uses without a program, so their figures are no floors here."""
    program = layout.program
    profile = replace(profile, components=tuple(replace(cost, floor=False) for cost in profile.components))

    def predict(configuration: Configuration) -> Prediction:
        pod = configuration.pod
        hops = tuple(_loaded(layout, arm) for arm in configuration.hops)
        return _prediction(estimate(program, {pod: hops}, profile), configuration)

    return predict


def _loaded(layout: Layout, arm: Arm) -> LoadedHop:
    port = layout.ports[arm.name]
    hop = next(each for each in layout.hops[arm.pod] if each.port.number == port.number)
    source, destination = ("caller", arm.pod) if arm.side is Side.INGRESS else (arm.pod, "target")
    calls = tuple(
        index
        for index, call in enumerate(layout.program.calls)
        if (call.source, call.destination, call.port.number) == (source, destination, port.number)
    )
    enforced = tuple(Enforced(policy, calls) for policy in hop.policies)
    return LoadedHop(arm.pod, arm.side, destination, hop.port, calls, enforced)


def _prediction(found: Overhead, configuration: Configuration) -> Prediction:
    (adm,) = found.adms
    rate = configuration.rate
    latencies = [(hop.latency, float(hop.rate)) for hop in adm.hops]
    if any(latency is None for latency, _ in latencies):
        raise ValueError(f"the profile has no latency for {configuration}: {found.missing} {found.saturated}")

    def cost(end: str) -> Cost | None:
        cpu = getattr(adm.cpu, end)
        delays = [(getattr(latency, end), weight) for latency, weight in latencies]
        if cpu is None or any(delay is None for delay, _ in delays):
            return None
        return Cost(cpu / rate / 1e3, sum(delay * weight for delay, weight in delays) / rate / 1e3)

    value = cost("value")
    assert value is not None
    return Prediction(value, cost("low"), cost("high"))


# ---- naive ----


def naive(profile: Profile, layout: Layout) -> Mapping[str, Callable[[Configuration], Cost]]:
    typical = training_mean(profile)
    bare = predictor(replace(profile, components=_free(profile)), layout)
    constant = predictor(without_rate(profile), layout)
    return {
        "mean": lambda _: typical,
        "bare hop": lambda configuration: bare(configuration).value,
        "constant": lambda configuration: constant(configuration).value,
    }


def training_mean(profile: Profile) -> Cost:
    """Over all rates, and the ends of all sizes, of hops and of hops with a component."""
    return Cost(mean(_measured(profile, CPU)), mean(_measured(profile, LATENCY)))


def _measured(profile: Profile, quantity: str) -> Iterator[float]:
    bases: dict[tuple[object, Decimal, Decimal], float] = {}
    for hop in profile.hops:
        assert hop.sizes is not None
        for rate, size, value in _points(law(hop.parts[0], quantity), quantity, (hop.sizes.low, hop.sizes.high)):
            bases[hop.protocol, rate, size] = value
            yield value
    for cost in profile.components:
        assert cost.sizes is not None
        for rate, size, value in _points(law(cost, quantity), quantity, (cost.sizes.low, cost.sizes.high)):
            if (base := bases.get((cost.protocol, rate, size))) is not None:
                yield base + value


def _points(found: Law | None, quantity: str, sizes: Sequence[Decimal]) -> Iterator[tuple[Decimal, Decimal, float]]:
    """Rate, size and microseconds of one request."""
    if found is None:
        return
    slopes = {knot.rate: knot.figure.value for knot in found.per_byte or ()}
    for knot in found.base:
        assert knot.rate is not None
        scale = float(knot.rate) / 1e6 if quantity == CPU else 1.0
        for size in sizes:
            if size == sizes[0] or knot.rate in slopes:
                value = knot.figure.value + slopes.get(knot.rate, Decimal(0)) * (size - sizes[0])
                yield knot.rate, size, float(value) / scale


_NOTHING: Curve = (Knot(Decimal(1), Decimal(0), (Decimal(0), Decimal(0))),)


def _free(profile: Profile) -> tuple[ComponentCost, ...]:
    return tuple(replace(cost, latency=Law(_NOTHING, None), cpu=Law(_NOTHING, None)) for cost in profile.components)


def without_rate(profile: Profile) -> Profile:
    """With the figures of the highest rate of each law alone, for every rate."""

    def flat(found: Law | None) -> Law | None:
        if found is None:
            return None
        return Law(found.base[-1:], None if found.per_byte is None else found.per_byte[-1:])

    hops = tuple(
        replace(hop, parts=tuple(Part(part.name, flat(part.latency), flat(part.cpu)) for part in hop.parts))
        for hop in profile.hops
    )
    components = tuple(replace(cost, latency=flat(cost.latency), cpu=flat(cost.cpu)) for cost in profile.components)
    idle = replace(profile.sidecar, idle_cpu=Figure(Decimal(0), (Decimal(0), Decimal(0))))
    return replace(profile, hops=hops, components=components, sidecar=idle)
