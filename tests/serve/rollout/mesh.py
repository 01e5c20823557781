"""A small mesh for simulations: plans, what a proxy enforces with a label, and proxies with their connections.

A hop is one end of the calls to a destination. A plan gives each hop a value, which stands for its policies. A request
is enforced as promised if some plan has the pair of values that it met at its two ends.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import Label

STEPS = list(StepName)


class Hop(NamedTuple):
    service: str
    destination: str

    @property
    def receives(self) -> bool:
        return self.service == self.destination


@dataclass(frozen=True)
class Plan:
    name: str
    values: dict[str, tuple[int, int]]
    """Destination -> what its senders and its receiver enforce."""


class Met(NamedTuple):
    """What requests meet at one hop."""

    plan: str
    value: int
    mark: int = 0
    """At a sender: the move whose marker it sets."""


@dataclass
class World:
    senders: dict[str, tuple[str, ...]]
    plans: dict[str, Plan] = field(default_factory=dict)
    bad: set[tuple[Hop, int]] = field(default_factory=set)
    """Values that the proxies of a hop refuse."""
    bad_goals: set[str] = field(default_factory=set)
    """Plans on the way to which some proxies refuse a route table of a later step than `prepare`."""
    seed: int = 0

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(sorted({*self.senders, *(name for names in self.senders.values() for name in names)}))

    def hops(self, service: str) -> list[Hop]:
        return [Hop(service, each) for each, names in self.senders.items() if service == each or service in names]

    def moved(self, old: str, new: str) -> set[str]:
        """Destinations that change at both their ends."""
        a, b = self.plans[old].values, self.plans[new].values
        return {name for name in a if a[name][0] != b[name][0] and a[name][1] != b[name][1]}

    def moves(self, old: str, new: str) -> frozenset[str]:
        return frozenset(service for name in self.moved(old, new) for service in (name, *self.senders[name]))

    def changes(self, old: str, new: str) -> frozenset[str]:
        return frozenset(
            hop.service
            for service in self.services
            for hop in self.hops(service)
            if self.value(old, hop) != self.value(new, hop)
        )

    def value(self, plan: str, hop: Hop) -> int:
        return self.plans[plan].values[hop.destination][hop.receives]

    def _coin(self, *about: object, chance: float = 0.5) -> bool:
        return random.Random(f"{self.seed} {about}").random() < chance  # noqa: S311 - reproducible, not secret

    def chain(self, label: Label, hop: Hop) -> str:
        """The name of what a filter chain refers to; new connections get another chain where it differs."""
        if label.goal is None:
            return f"{hop.destination}/{self.value(label.base, hop)}"
        if hop.destination not in self.moved(label.base, label.goal):
            return f"{hop.destination}/{self.value(self._unmoved(label, hop), hop)}"
        values = [str(self.value(plan, hop)) for plan in (label.base, label.goal)]
        return f"{hop.destination}/{'+'.join(values)}"

    def _unmoved(self, label: Label, hop: Hop) -> str:
        """What changes at one end changes with `prepare` or at the end of the move."""
        assert label.goal is not None
        return label.base if self._coin("late", label.base, label.goal, hop.destination) else label.goal

    def refuses(self, label: Label, hop: Hop) -> bool:
        later = label.goal in self.bad_goals and label.step is not StepName.PREPARE
        if later and self._coin("table", label.goal, label.step, hop, chance=0.2):
            return True
        values = self.chain(label, hop).split("/")[1].split("+")
        return any((hop, int(value)) in self.bad for value in values)

    def sends(self, label: Label, hop: Hop) -> Met:
        """What a request meets at a sender (the table of issue 10)."""
        base, goal = label.base, label.goal
        if goal is None:
            return Met(base, self.value(base, hop))
        if hop.destination not in self.moved(base, goal):
            plan = self._unmoved(label, hop)
            return Met(plan, self.value(plan, hop))
        to_senders = self._coin("direction", base, goal, hop.destination)
        if label.step in (StepName.SENDERS, StepName.RECEIVERS):
            plan = goal if to_senders else base
            return Met(plan, self.value(plan, hop), label.move)
        plan = base if label.step is StepName.PREPARE else goal
        return Met(plan, self.value(plan, hop))

    def receives(self, label: Label, hop: Hop, mark: int) -> Met:
        base, goal = label.base, label.goal
        if goal is None:
            return Met(base, self.value(base, hop))
        if hop.destination not in self.moved(base, goal):
            plan = self._unmoved(label, hop)
            return Met(plan, self.value(plan, hop))
        if mark == label.move:
            plan = goal if self._coin("direction", base, goal, hop.destination) else base
        else:
            plan = base if label.step in (StepName.PREPARE, StepName.SENDERS) else goal
        return Met(plan, self.value(plan, hop))

    def wrong(self, destination: str, sender: tuple[Hop, Label], receiver: tuple[Hop, Label]) -> str:
        """What is wrong with a request between two ends that enforce labels; empty where nothing is."""
        sent = self.sends(sender[1], sender[0])
        received = self.receives(receiver[1], receiver[0], sent.mark)
        pair = (sent.value, received.value)
        plans = sender[1].plans | receiver[1].plans
        if any(self.plans[plan].values[destination] == pair for plan in plans):
            return ""
        return f"{sender[0]} with {sender[1]} and {receiver[0]} with {receiver[1]} enforce {pair}"


@dataclass
class Proxy:
    id: int
    service: str
    flaky: bool = False
    """It refuses what comes next, and takes it when it comes again on another stream."""
    listed: bool = True
    connected: bool = False
    has: dict[Hop, Label] = field(default_factory=dict)
    lagging: list[tuple[Hop, Label]] = field(default_factory=list)
    """What workers still have of what the main thread has replaced."""
    older: list[tuple[Hop, Label, str]] = field(default_factory=list)
    """Connections that were made with chains that are replaced: what they enforce, and the chain."""
    arriving: tuple[Label, int] | None = None
    reply: tuple[tuple[Label, int], bool] | None = None
    """What it answers: which version, and whether it took it."""
    sent: tuple[Label, int] | None = None
    """On this stream, by the server."""
    acked: tuple[Label, int] | None = None
    nacked: tuple[Label, int] | None = None
    settled: bool = False
    """A second has passed since it acknowledged."""

    def enforced(self, hop: Hop) -> set[Label]:
        """All labels that requests may meet at a hop of it."""
        found = {label for each, label in (*self.has.items(), *self.lagging) if each == hop}
        return found | {label for each, label, _ in self.older if each == hop}

    fresh: bool = False
    """It had nothing when its stream began, and the server sent one label on it at most."""

    def begin_stream(self) -> None:
        self.connected = True
        self.fresh = not self.has

    def end_stream(self, world: World, chance: random.Random) -> None:
        """What was on its way is lost, or it is the last that the proxy takes from this stream."""
        if self.arriving is not None and chance.random() < 0.5:
            self.take(world, self.arriving, chance)
        self.connected = self.settled = self.fresh = False
        self.arriving = self.sent = self.acked = self.nacked = self.reply = None

    def take(self, world: World, version: tuple[Label, int], chance: random.Random) -> bool:
        """Apply a version, hop by hop, in any order; whether it took all of it."""
        label, taken = version[0], True
        flaky, self.flaky = self.flaky, False
        for hop in chance.sample(world.hops(self.service), len(world.hops(self.service))):
            before = self.has.get(hop)
            if world.refuses(label, hop) or (flaky and chance.random() < 0.7):
                taken = False
                continue
            if before is not None:
                self._replace(world, hop, before, label, chance)
            self.has[hop] = label
        return taken

    def _replace(self, world: World, hop: Hop, before: Label, label: Label, chance: random.Random) -> None:
        self.lagging.append((hop, before))
        was, now = world.chain(before, hop), world.chain(label, hop)
        if was != now and chance.random() < 0.6:
            self.older.append((hop, before, was))
        # Tables that the new version has again are those of the older connections, too.
        self.older = [(each, label if each == hop and chain == now else old, chain) for each, old, chain in self.older]

    def settle(self) -> None:
        self.lagging.clear()

    def frozen(self, world: World, now: Label) -> frozenset[str]:
        """Chains that it subscribes to and `now` does not have."""
        there = {world.chain(now, hop) for hop in world.hops(self.service)}
        return frozenset(chain for _, _, chain in self.older if chain not in there)

    def restart(self, world: World, chance: random.Random) -> None:
        self.end_stream(world, chance)
        self.has.clear()
        self.lagging.clear()
        self.older.clear()
