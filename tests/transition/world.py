"""What requests can meet while proxies walk through a transition, each in its own time.

    (old, new, how far, and then back?) -> the moments of a walk -> every way that a request can take -> what it meets

Nothing of the walk is repeated here: the driver itself says when to go on, and from the steps are taken only the
filters of each hop and what its route table says. A proxy is at the step that is published or at the one before. The
connection may be as old as the last wait for older connections allows, at the sender and at the receiver, and route
tables may be older than listeners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.transition.between import original
from admc.transition.driver import MARGIN_SECONDS, Sight, Walk
from admc.transition.model import Phase, Placed, Toggle
from dsl.program import Side, Stage
from emitters.scope import hops

if TYPE_CHECKING:
    from admc.transition.model import Step
    from dsl.program import Policy

DRAIN = 60.0
HopKey = tuple[str, Side, str, int]


class Filter(NamedTuple):
    """`name` is what a step calls it, `policy` what its user does."""

    name: str
    policy: str
    content: Policy


class Table(NamedTuple):
    """A hop at one moment."""

    filters: tuple[Filter, ...]
    toggle: Toggle
    requests: bool


Config = Mapping[HopKey, Table]


class Moment(NamedTuple):
    """What is published, and which earlier moment the oldest connections are from."""

    config: Config
    phase: Phase | None
    floor: int


class Met(NamedTuple):
    """What a request met, in order, and at which moment it did."""

    moment: int
    policies: tuple[tuple[Side, Filter], ...]
    how: tuple[int, int, int, int]
    """When the sender's connection and route table, and the receiver's, are from."""


class _Node(NamedTuple):
    id: str = "0"


class _Proxy(NamedTuple):
    group: str
    acknowledged: str
    node: _Node = _Node()


def moments(steps: tuple[Step, ...], old: Placed, turn: Phase | None = None) -> list[Moment]:
    """A walk to the end; or, from the step `turn` on, back to the beginning and its last wait."""
    told: list[Moment] = [Moment(_config(_whole(old)), None, 0)]
    if not steps:
        return told
    return [*told, *_walked(steps, turn)]


def _walked(steps: tuple[Step, ...], turn: Phase | None) -> Iterator[Moment]:
    walk, now, floor, at = Walk(steps), 0.0, 0, 1
    names = {name for step in steps for name in step.awaits}
    proxies = tuple(_Proxy(name, "now") for name in names)
    configs = {
        step.phase: _config({name: (part.placed, part.toggles) for name, part in step.parts.items()}) for step in steps
    }
    yield Moment(configs[walk.step.phase], walk.step.phase, floor)
    while True:
        if turn is not None and walk.step.phase is turn and not walk.back:
            walk = walk.undone()
        since = walk.since
        after, waits = walk.look(Sight(now, proxies, dict.fromkeys(names, "now"), {}), DRAIN)
        if since is not None and not waits and now - since >= DRAIN + MARGIN_SECONDS:
            floor = at
        if after.index != walk.index:
            at += 1
            yield Moment(configs[after.step.phase], after.step.phase, floor)
        elif after.over and not waits and after.since is not None:
            if after.back:
                # Whatever comes next comes after the last wait.
                yield Moment(configs[after.step.phase], after.step.phase, floor)
            return
        walk, now = after, now + 1.0


def _whole(placed: Placed) -> dict[str, tuple[Placed, Mapping[str, Toggle]]]:
    return {service: (placed, {}) for service in hops(*placed)}


def _config(parts: Mapping[str, tuple[Placed, Mapping[str, Toggle]]]) -> Config:
    found: dict[HopKey, Table] = {}
    for service, (placed, toggles) in parts.items():
        for hop in hops(*placed).get(service, ()):
            filters = tuple(
                Filter(policy.name, original(policy.name), policy)
                for policy in hop.policies
                if hop.stage(policy) is Stage.FILTER
            )
            key = (service, hop.side, hop.destination, hop.port.number)
            found[key] = Table(filters, toggles.get(hop.name, Toggle()), hop.carries_requests)
    return found


def ways(walk: list[Moment], call: Any) -> Iterator[Met]:
    """Every way that a request of a call can take, with what it meets there."""
    sender: HopKey = (call.source, Side.EGRESS, call.destination, call.port.number)
    receiver: HopKey = (call.destination, Side.INGRESS, call.destination, call.port.number)
    seen: set[tuple[int, tuple[tuple[Side, str], ...]]] = set()
    for now, moment in enumerate(walk):
        connections = range(min(moment.floor, now), now + 1)
        routes = range(max(now - 1, 0), now + 1)
        for how in product(connections, routes, connections, routes):
            out = walk[how[0]].config.get(sender)
            into = walk[how[2]].config.get(receiver)
            told = _table(walk, how[:2], sender) if out else Toggle()
            marked = out is not None and told.marks
            met = [(Side.EGRESS, each) for each in (out.filters if out else ()) if each.name not in told.off]
            told = _table(walk, how[2:], receiver) if into else Toggle()
            skipped = told.off | told.met if marked else told.off
            met += [(Side.INGRESS, each) for each in (into.filters if into else ()) if each.name not in skipped]
            key = (now, tuple((side, each.name) for side, each in met))
            if key not in seen:
                seen.add(key)
                yield Met(now, tuple(met), how)


def _table(walk: list[Moment], how: tuple[int, ...], hop: HopKey) -> Toggle:
    """What is gone from a step is kept for the connections that are older; a new listener waits for its table."""
    chain, at = how
    for when in (*range(at, -1, -1), chain):
        found = walk[when].config.get(hop)
        if found is not None:
            return found.toggle
    raise AssertionError(f"no table for {hop}")
