"""How often intervals of 90% hold the truth: of fitted figures, and of whole estimates.

    python -m tests.cost.coverage --runs 200

Each run draws a machine with known costs, measures it as `admc profile fit` wants it, with the noise that a measurement
has, fits a profile, and estimates one program by it. What a slice of a measurement sees is its truth, times a factor
that goes on from one slice to the next (an autoregressive process within a turn), and for latency also a delay that all
slices of a turn share, and that wanders from turn to turn.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from math import pi
from statistics import mean, quantiles
from typing import Final, NamedTuple

from admc.cost.model.estimate import estimate
from admc.cost.model.layout import Layout, of_placement
from admc.cost.profile_import.estimates import UNIT
from admc.cost.profile_import.estimates import estimate as estimated
from admc.cost.profile_import.fit import fit
from admc.cost.profile_import.runs import HOP, IDLE, NONE, Arm, Run
from admc.cost.profiles.amounts import NANO, Whole, independently_added, whole
from admc.cost.profiles.law import Amount
from admc.cost.profiles.profile import (
    CPU,
    LATENCY,
    SCHEMA_VERSION,
    UNITS,
    ComponentCost,
    Figure,
    HopCost,
    Knot,
    Law,
    Part,
    Platform,
    Profile,
    Proxy,
    SidecarCost,
    Sizes,
)
from dsl import load_text
from dsl.program import Program, Protocol
from dsl.text import SourceText, Span
from solver.place import place

RATES: Final = (5, 40, 320, 1600)
SIZES: Final = (100, 4000, 16000)
COMPONENTS: Final = ("local_ratelimit", "rbac", "request_count")
TURNS: Final = 11
KEPT: Final = 0.6
"""How much of the noise of a slice goes on to the next one."""
NOISE: Final = 0.03
DELAY: Final = 20.0
"""Microseconds by which a delay that all slices share changes from one turn to the next."""
BIAS = 1.0
"""What the sidecar costs in the measurement, over its cost: 1, except in the test of this module."""
_NOWHERE: Final = Span(SourceText("runs", ""), 0, 0)
_PLATFORM: Final = (Platform("machine", "system"), Proxy("envoy", "1"))
PROGRAM: Final = """app shop
service web, api, user, cart { http 8080 }
call web -> api { rate 200/s  size 2KB }
call web -> user { rate 30/s  size 500B }
call api -> cart { rate 90/s  size 9KB }
call user -> cart { rate 12/s  size 100B }
policy quota = rate_limit(requests: 1000, per: 1s) on web -> api
policy guard = allow(callers: [web]) on web -> {api, user}
@ingress
policy count = request_count() on * -> cart
@ingress
policy readers = allow(callers: [api, user]) on * -> cart
"""


class Outcome(NamedTuple):
    """One interval: what it is of, how far its value is from the truth, and its half width."""

    what: str
    holds: bool
    error: float
    half: float


# ---- the machine ----


def machine(draw: random.Random) -> Profile:
    """A profile without errors: CPU of a request falls with the rate, as on real machines."""
    idle = Decimal(draw.randrange(500, 3000)).scaleb(-6)
    hop = _laws(draw, 200, 900)
    return Profile(
        SCHEMA_VERSION,
        "truth",
        "drawn",
        *_PLATFORM,
        fit((), "empty", *_PLATFORM, None).profile.method,
        UNITS,
        None,
        {"whole": "all parts together"},
        (),
        SidecarCost(Figure(idle, None), None, None, None, None),
        (HopCost(Protocol.HTTP, _sizes(), TURNS, (Part("whole", *hop),)),),
        tuple(_component(draw, name) for name in COMPONENTS),
    )


def _component(draw: random.Random, name: str) -> ComponentCost:
    laws = _laws(draw, 5, 120)
    return ComponentCost(name, Protocol.HTTP, None, None, {}, False, _sizes(), TURNS, *laws, None)


def _sizes() -> Sizes:
    return Sizes(Decimal(SIZES[0]), Decimal(SIZES[-1]), Decimal(SIZES[0]))


def _laws(draw: random.Random, low: int, high: int) -> tuple[Law, Law]:
    """Latency in microseconds and CPU in cores, at all rates."""
    cost = draw.uniform(low, high)
    latencies, seconds, bytes_ = [], [], []
    for rate in RATES:
        latencies.append(Knot(Decimal(rate), Decimal(f"{cost:.3f}"), None))
        seconds.append(Decimal(f"{cost * draw.uniform(0.5, 1):.3f}").scaleb(-6))
        bytes_.append(Decimal(f"{draw.uniform(0.1, 3):.3f}").scaleb(-9))
        cost *= draw.uniform(0.4, 0.95)
    seconds, bytes_ = sorted(seconds, reverse=True), sorted(bytes_, reverse=True)
    slope = (Knot(Decimal(RATES[0]), Decimal(f"{draw.uniform(0.0001, 0.003):.6f}"), None),)
    return (
        Law(tuple(latencies), tuple(Knot.of(Decimal(rate), slope[0].figure) for rate in RATES)),
        Law(
            tuple(Knot(Decimal(rate), each * rate, None) for rate, each in zip(RATES, seconds, strict=True)),
            tuple(Knot(Decimal(rate), each * rate, None) for rate, each in zip(RATES, bytes_, strict=True)),
        ),
    )


# ---- its measurement ----


def measured(truth: Profile, draw: random.Random) -> list[Run]:
    """Runs of all arms in turns."""
    found: list[Run] = []
    idle = float(truth.sidecar.idle_cpu.value) if truth.sidecar.idle_cpu is not None else 0.0
    delay = 300.0
    for turn in range(TURNS):
        delay += draw.gauss(0, DELAY)
        noise = _noise(draw)
        found.append(_run(turn, Arm(IDLE), None, None, None, idle * next(noise)))
        for rate in RATES:
            for size in SIZES:
                costs = _costs(truth, rate, size)
                base = 1000 + delay
                latency, cores = (BIAS * each for each in costs[HOP])
                found.append(_run(turn, Arm(NONE), rate, size, base * next(noise), None))
                found.append(
                    _run(turn, Arm(HOP), rate, size, (base + latency) * next(noise), (idle + cores) * next(noise))
                )
                for name in COMPONENTS:
                    more, work = costs[name]
                    found.append(
                        _run(
                            turn,
                            Arm(name),
                            rate,
                            size,
                            (base + latency + more) * next(noise),
                            (idle + cores + work) * next(noise),
                        )
                    )
    return found


def _noise(draw: random.Random) -> Iterator[float]:
    """Factors near 1, each like the one before."""
    state = draw.gauss(0, NOISE)
    while True:
        yield 1 + state
        state = KEPT * state + draw.gauss(0, NOISE * (1 - KEPT**2) ** 0.5)


def _costs(truth: Profile, rate: int, size: int) -> dict[str, tuple[float, float]]:
    """Microseconds, and cores, of a bare hop and of each component."""
    at = RATES.index(rate)
    more = size - SIZES[0]
    parts = {HOP: truth.hops[0].parts[0], **{cost.component: cost for cost in truth.components}}
    return {
        name: tuple(  # type: ignore[misc]
            float(found.base[at].figure.value + (found.per_byte or found.base)[at].figure.value * more)
            for found in (part.latency, part.cpu)
            if found is not None
        )
        for name, part in parts.items()
    }


def _run(turn: int, arm: Arm, rate: int | None, size: int | None, latency: float | None, cpu: float | None) -> Run:
    def number(value: float | None) -> Decimal | None:
        return None if value is None else Decimal(f"{max(value, 0.0):.9f}")

    protocol = None if rate is None else Protocol.HTTP
    exact = [None if value is None else Decimal(value) for value in (rate, size)]
    return Run(str(turn), arm, protocol, exact[0], exact[1], number(latency), number(cpu), None, None, _NOWHERE)


# ---- what intervals hold ----


def outcomes(seed: int) -> list[Outcome]:
    """All intervals of one fitted profile, and of one estimate by it."""
    draw = random.Random(seed)  # noqa: S311
    truth = machine(draw)
    fitted = fit(measured(truth, draw), "fitted", *_PLATFORM, None).profile
    return [*_of_figures(truth, fitted), *_of_estimate(truth, fitted)]


def _of_figures(truth: Profile, fitted: Profile) -> Iterator[Outcome]:
    for name, one, other in (
        ("hop", truth.hops[0].parts[0], fitted.hops[0].parts[0]),
        *(("component", *pair) for pair in zip(truth.components, fitted.components, strict=True)),
    ):
        for quantity, law, found in ((LATENCY, one.latency, other.latency), (CPU, one.cpu, other.cpu)):
            if law is None or found is None:
                raise AssertionError(f"no {quantity} of {name}")
            curves = (("base", law.base, found.base), ("byte", law.per_byte or (), found.per_byte or ()))
            for what, knots, others in curves:
                for knot, fit_ in zip(knots, others, strict=True):
                    figure = fit_.figure
                    if figure.low is None or figure.high is None:
                        raise AssertionError("no interval")
                    yield _outcome(
                        f"figure: {name} {quantity} {what}",
                        float(knot.figure.value),
                        (float(figure.low), float(figure.value), float(figure.high)),
                    )


@cache
def _program() -> tuple[Program, Layout]:
    program = load_text(PROGRAM)
    return program, of_placement(program, place(program))


def _of_estimate(truth: Profile, fitted: Profile) -> Iterator[Outcome]:
    program, layout = _program()
    exact, found = (estimate(program, layout, profile) for profile in (truth, replace(fitted, saturation=None)))
    pairs = [
        ("sum: latency of all requests", exact.totals.latency, found.totals.latency),
        ("sum: cores of all ADMs", exact.totals.cpu, found.totals.cpu),
    ]
    for one, other in zip(exact.adms, found.adms, strict=True):
        pairs.append(("sum: cores of an ADM", one.cpu, other.cpu))
        for hop, fit_ in zip(one.hops, other.hops, strict=True):
            if hop.latency is not None and fit_.latency is not None:
                pairs.append(("sum: latency of a hop with its policies", hop.latency, fit_.latency))
    for what, true, total in pairs:
        if total.low is None or total.high is None:
            raise AssertionError(f"no interval: {what}")
        yield _outcome(what, true.value, (total.low, total.value, total.high))


def _outcome(what: str, truth: float, found: tuple[float, float, float]) -> Outcome:
    low, value, high = found
    return Outcome(what, low <= truth <= high, abs(value - truth), (high - low) / 2)


class Row(NamedTuple):
    what: str
    intervals: int
    holds: float
    """The share of intervals that hold the truth."""
    width: float
    """Mean half width, over the half width that would hold 90%."""


def table(runs: int, seed: int = 0) -> list[Row]:
    found: dict[str, list[Outcome]] = defaultdict(list)
    for at in range(runs):
        for outcome in outcomes(seed + at):
            found[outcome.what].append(outcome)
    rows = []
    for what, each in sorted(found.items()):
        needed = quantiles([one.error for one in each], n=10)[-1]
        rows.append(Row(what, len(each), mean(one.holds for one in each), mean(one.half for one in each) / needed))
    return rows


# ---- components that cost next to nothing ----


class Small(NamedTuple):
    """Sums of policies of different components, in errors of one component: of its median over turns."""

    components: int
    cost: float
    """The true cost of each."""
    bias: float
    """How far the sum is above the truth, on average."""
    spread: float
    """How far it is from the truth: the root of the mean square."""
    holds: float
    """The share of intervals of the sum that hold the truth."""


def small(components: int, cost: float, sums: int, seed: int = 0) -> Small:
    """What becomes of medians below zero, which count as zero."""
    draw = random.Random(seed)  # noqa: S311
    noise = (2 * TURNS / pi) ** 0.5  # of one turn: so the median over turns has an error of 1
    errors, held = [], 0
    for _ in range(sums):
        found = independently_added(_measured_once(draw, cost, noise) for _ in range(components))
        truth = cost * components
        errors.append(found.value / NANO - truth)
        held += found.low is not None and found.high is not None and found.low <= truth * NANO <= found.high
    return Small(components, cost, mean(errors), mean(each**2 for each in errors) ** 0.5, held / sums)


def _measured_once(draw: random.Random, cost: float, noise: float) -> Whole:
    found = estimated([int(draw.gauss(cost, noise) * UNIT) for _ in range(TURNS)])
    if found is None or found.low is None or found.high is None:
        raise AssertionError("no interval")
    return whole(Amount(float(found.value), float(found.low), float(found.high)), NANO)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="machines that are drawn and measured")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{'':40} intervals  holds the truth  width / needed")
    for row in table(given.runs, given.seed):
        print(f"{row.what:40} {row.intervals:9}  {100 * row.holds:14.1f}%  {row.width:14.2f}")
    print("\nsums over components, in errors of one\ncomponents  cost of each   bias  spread  holds the truth")
    for components in (1, 5, 20):
        for cost in (0.0, 1.0, 2.0):
            each = small(components, cost, 5 * given.runs, given.seed)
            print(f"{components:10}  {cost:12.1f}  {each.bias:+5.2f}  {each.spread:6.2f}  {100 * each.holds:14.1f}%")


if __name__ == "__main__":
    main()
