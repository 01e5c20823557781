"""The sidecars of one run, drawn by a seed: off the grid of the profile, within the range that it was measured in."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from admc.cost.measurement.design import SIZES
from admc.cost.measurement.layout import Arm
from admc.cost.measurement.uses import Use
from admc.cost.profiles.profile import LATENCY, Profile, law
from dsl.program import Protocol, Side

COSTLY = frozenset({"tap", "jwt_authn", "compressor", "lua", "wasm"})
MOST_POLICIES = 5
SMALLEST, LARGEST = 150, 50_000
LOWEST = 6.0
"""Requests a second."""
BELOW_TOP = 0.85
"""The part of a profile's highest rate up to which is drawn: a sidecar with several policies takes more CPU."""
NEAR = 0.1
"""Sizes closer to one of the grid are drawn again."""


class Configuration(NamedTuple):
    """One sidecar. Each arm is one of its hops, with the rate and the size of its requests."""

    name: str
    hops: tuple[Arm, ...]

    @property
    def pod(self) -> str:
        return self.hops[0].pod

    @property
    def rate(self) -> float:
        return sum(hop.rate or 0.0 for hop in self.hops)

    def __str__(self) -> str:
        shown = []
        for hop in self.hops:
            policies = ", ".join(use.kind.name for use in hop.uses) or "bare"
            shown.append(f"{hop.protocol} {hop.rate:g}/s {hop.size} B ({policies})")
        return f"{self.hops[0].side}: {'; '.join(shown)}"


def draw(seed: int, profile: Profile, uses: Sequence[Use], number: int, several: int) -> tuple[Configuration, ...]:
    """`number` sidecars: `several` have several hops, and every second one has a costly policy."""
    chance = random.Random(seed)  # noqa: S311 (it is meant to be repeatable)
    top = {hop.protocol: max(rates(profile, hop.protocol)) for hop in profile.hops}
    kinds = ["several"] * several + ["one"] * (number - several)
    chance.shuffle(kinds)
    return tuple(_one(chance, f"sidecar_{at}", kind, at % 2 == 0, top, uses) for at, kind in enumerate(kinds))


def rates(profile: Profile, protocol: Protocol) -> Sequence[float]:
    """The rates at which hops of a protocol were measured, ascending."""
    hop = profile.hop(protocol)
    found = None if hop is None else law(hop.parts[0], LATENCY)
    if found is None:
        raise ValueError(f"the profile has no latency of a {protocol} hop")
    return [float(knot.rate) for knot in found.base if knot.rate is not None]


def _one(
    chance: random.Random, name: str, kind: str, costly: bool, top: Mapping[Protocol, float], uses: Sequence[Use]
) -> Configuration:
    number = chance.randint(2, 4) if kind == "several" else 1
    side = chance.choice([Side.INGRESS, Side.INGRESS, Side.EGRESS])
    protocols = [chance.choice(list(Protocol)) for _ in range(number)]
    if costly and protocols[0] is Protocol.TCP:
        protocols[0] = chance.choice([Protocol.HTTP, Protocol.GRPC])
    rate = _between(chance, LOWEST * number, BELOW_TOP * min(top[protocol] for protocol in protocols))
    shares = [chance.uniform(0.5, 1.5) for _ in protocols]
    policies = _policies(chance, protocols, side, costly, uses)
    hops = []
    for at, protocol in enumerate(protocols):
        own = round(rate * shares[at] / sum(shares), 1)
        hops.append(Arm(f"{name}_{at}", name, side, protocol, tuple(policies[at]), own, _size(chance)))
    return Configuration(name, tuple(hops))


def _policies(
    chance: random.Random, protocols: Sequence[Protocol], side: Side, costly: bool, uses: Sequence[Use]
) -> list[list[Use]]:
    """For each hop. A component is at most once at a hop: some kinds may not be there twice."""
    found: list[list[Use]] = [[] for _ in protocols]
    number = chance.randint(1 if costly else 0, MOST_POLICIES)
    for index in range(number):
        at = 0 if costly and index == 0 else chance.randrange(len(protocols))
        fitting = [
            use
            for use in uses
            if use.protocol is protocols[at]
            and (side in use.kind.sides)
            and use.key.name not in {each.key.name for each in found[at]}
            and (use.key.name in COSTLY) == (costly and index == 0)
        ]
        if fitting:
            found[at].append(chance.choice(fitting))
    # A buffer comes first: behind a filter that holds requests up, it would not see all of a body.
    return [sorted(each, key=lambda use: use.key.name != "buffer") for each in found]


def _between(chance: random.Random, low: float, high: float) -> float:
    """On a logarithmic scale."""
    return math.exp(chance.uniform(math.log(low), math.log(max(low, high))))


def _size(chance: random.Random) -> int:
    while True:
        size = round(_between(chance, SMALLEST, LARGEST))
        if all(abs(size / each - 1) > NEAR for each in SIZES):
            return size
