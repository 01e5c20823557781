"""What requests can meet while proxies walk through transitions, each in its own time.

    first plan, [(next plan, how the way to it ends), ...] -> moments -> every way of a request -> what it meets

Nothing of the walk is repeated here: the driver itself says when to go on, and from the steps are taken only the
filters of each hop and what its route table says. A proxy is at the step that is published, or at any since the one
that it acknowledged. The connection may be as old as the last wait for older connections allows, at the sender and at
the receiver; it has the filters of its listener, and of each filter's configuration and of the route table the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.transition.driver import MARGIN_SECONDS, Sight, Walk
from admc.transition.model import Phase, Placed, Toggle
from admc.transition.older import dropped, names, original, renamed
from admc.transition.steps import outlasting, steps
from dsl.program import Side, Stage
from emitters.envoy.names import filter_name
from emitters.hops import hops
from solver.rules.facts import targets

if TYPE_CHECKING:
    from admc.transition.model import Step
    from admc.transition.older import Dropped
    from dsl.program import Policy

DRAIN = 60.0
HopKey = tuple[str, Side, str, int]


class Filter(NamedTuple):
    """`name` is what its listener calls it, `policy` what its user does."""

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
    """What is published. `floor` and `behind` are of services: since when connections are from, and how far back a
    proxy may be."""

    config: Config
    phase: Phase | None
    floor: Mapping[str, int]
    behind: Mapping[str, int]
    tables: Mapping[HopKey, Toggle]
    """With what is kept for older connections."""
    contents: Mapping[HopKey, Mapping[str, Policy]]
    """The same of the filters' configurations."""
    walk: int
    """To which plan it belongs, of those that follow the first one."""


class Met(NamedTuple):
    """What a request met, in order, and at which moment it did."""

    moment: int
    policies: tuple[tuple[Side, Filter], ...]
    how: tuple[int, int, int, int]
    """When the sender's connection and route table, and the receiver's, are from."""
    lost: bool
    """Whether the connection's listener refers to something that is gone, though its service has other policies."""


Turn = Phase | int
"""A step: the first one of a phase, or one by its index."""


class Leg(NamedTuple):
    """The way to a plan. `end`: it is walked to the end (None), undone from that step on, or, with `FINAL`, left as
    soon as that step is published."""

    new: Placed
    end: Turn | None = None


class _Node(NamedTuple):
    id: str = "0"


class _Proxy(NamedTuple):
    group: str
    acknowledged: str
    node: _Node = _Node()
    refuses: bool = False
    fresh: bool = False


def moments(steps: tuple[Step, ...], old: Placed, turn: Turn | None = None, again: Turn | None = None) -> list[Moment]:
    """A walk to the end; or, from the step `turn` on, back to the beginning and its last wait. `again`: on the way back
    that step is refused, and it goes forward to the end."""
    world = World(old)
    if steps:
        world.go(steps, 1, turn, again)
    return world.told


def chain(first: Placed, legs: Sequence[Leg]) -> list[Moment]:
    """One transition after the other, each begun where the one before was left."""
    world = World(first)
    old = first
    older: Dropped = {}
    undone: frozenset[str] = frozenset()
    for number, leg in enumerate(legs, 1):
        new = renamed(leg.new, names(older, old, leg.new))
        walked = steps(old, new, b"key", undone)
        left = dropped(older, old, new)
        if any(step.phase is Phase.PREPARE for step in walked):
            left = dict.fromkeys(left)  # only a refusal ends it here, and older route tables skip what they have left
        if world.go(walked, number, leg.end):
            if leg.end is Phase.FINAL:
                older = left
            else:
                older = {}
                if new is not leg.new:
                    world.go(steps(new, leg.new, b"key"), number)
                    new = leg.new
            old, undone = new, frozenset()
        else:
            undone = frozenset(name for step in walked for name in (*step.awaits, *step.leaves))
    return world.told


class World:
    """All that was published, and who may have how much of it."""

    def __init__(self, first: Placed) -> None:
        self.told: list[Moment] = []
        self._floor: dict[str, int] = {}
        self._behind: dict[str, int] = {}
        self._lingering: frozenset[str] = frozenset()
        self._walk = 0
        self._publish(_config(_whole(first)), None)

    def go(self, walked: tuple[Step, ...], number: int, end: Turn | None = None, again: Turn | None = None) -> bool:
        """Whether the next transition begins from the new plan. `number` is of the plan."""
        self._walk = number
        about = frozenset(name for step in walked for name in (*step.awaits, *step.leaves))
        walk, now = Walk(outlasting(walked, self._lingering)), 0.0
        names = about | self._lingering
        proxies = tuple(_Proxy(name, "now") for name in sorted(names))
        self._take(walk.step)
        while True:
            if walk.step.phase is Phase.FINAL and end is Phase.FINAL:
                self._lingering = names
                return True
            if end is not None and end in (walk.step.phase, walk.index):
                walk, end = walk.undone(), None
            if walk.back and not walk.turning and again in (walk.step.phase, walk.index):
                walk = walk.redone()
                self._take(walk.step)
            since = walk.since
            after, waits = walk.look(Sight(now, proxies, dict.fromkeys(names, "now"), {}), DRAIN)
            at = len(self.told) - 1
            awaited = frozenset((*walk.step.awaits, *walk.step.leaves))
            if since is not None and not waits:
                self._behind.update(dict.fromkeys(awaited, at))
                if now - since >= DRAIN + MARGIN_SECONDS:
                    self._floor.update(dict.fromkeys(awaited, at))
            if after.index != walk.index:
                self._take(after.step)
            elif after.over and not waits and after.since is not None:
                if not after.back:
                    self._lingering = frozenset()
                return not after.back
            walk, now = after, now + 1.0

    def _take(self, step: Step) -> None:
        self._publish(_config({name: (part.placed, part.toggles) for name, part in step.parts.items()}), step.phase)

    def _publish(self, config: Config, phase: Phase | None) -> None:
        tables = {hop: table.toggle for hop, table in config.items()}
        contents = {hop: {each.name: each.content for each in table.filters} for hop, table in config.items()}
        if self.told and phase is not Phase.CLEAN:
            before = self.told[-1]
            tables = {**before.tables, **tables}
            contents = {
                hop: {**before.contents.get(hop, {}), **contents.get(hop, {})}
                for hop in {**before.contents, **contents}
            }
        self.told.append(Moment(config, phase, dict(self._floor), dict(self._behind), tables, contents, self._walk))


def _whole(placed: Placed) -> dict[str, tuple[Placed, Mapping[str, Toggle]]]:
    return {service: (placed, {}) for service in hops(*placed)}


def _config(parts: Mapping[str, tuple[Placed, Mapping[str, Toggle]]]) -> Config:
    found: dict[HopKey, Table] = {}
    for service, (placed, toggles) in parts.items():
        for hop in hops(*placed).get(service, ()):
            filters = tuple(
                Filter(filter_name(hop.name, policy), original(policy.name), policy)
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
    seen: set[tuple[object, ...]] = set()
    for now in range(len(walk)):
        for out, into in product(_ends(walk, now, sender), _ends(walk, now, receiver)):
            met = [(Side.EGRESS, each) for each in out.filters if each.name not in out.off]
            skipped = into.off | into.met if out.marks else into.off
            met += [(Side.INGRESS, each) for each in into.filters if each.name not in skipped]
            lost = out.lost or into.lost
            key = (now, lost, tuple((side, each.name, id(each.content)) for side, each in met))
            if key not in seen:
                seen.add(key)
                yield Met(now, tuple(met), (*out.how, *into.how), lost)


class _End(NamedTuple):
    """What one end of a call does with a request."""

    filters: tuple[Filter, ...] = ()
    off: frozenset[str] = frozenset()
    met: frozenset[str] = frozenset()
    marks: bool = False
    lost: bool = False
    how: tuple[int, int] = (0, 0)


def _ends(walk: list[Moment], now: int, hop: HopKey) -> list[_End]:
    moment = walk[now]
    connections = range(moment.floor.get(hop[0], 0), now + 1)
    routes = range(moment.behind.get(hop[0], 0), now + 1)
    found: dict[object, _End] = {}
    for how in product(connections, routes):
        end = _end(walk, how, hop)
        found.setdefault((tuple((each.name, id(each.content)) for each in end.filters), end[1:5]), end)
    return list(found.values())


def _end(walk: list[Moment], how: tuple[int, int], hop: HopKey) -> _End:
    """A new listener waits for its route table and for the configurations of its filters."""
    begun, told = how
    table = walk[begun].config.get(hop)
    if table is None:
        return _End(how=how)
    if not table.requests:
        return _End(table.filters, how=how)
    there = walk[told if hop in walk[told].tables or told > begun else begun]
    toggle, contents = there.tables.get(hop, Toggle()), there.contents.get(hop, {})
    off = frozenset(called for name in toggle.off for called in toggle.filters[name])
    met = frozenset(called for name in toggle.met for called in toggle.filters[name])
    fresh = walk[begun].contents[hop] if told < begun else {}
    lost = hop not in there.tables or any(
        each.name not in contents and each.name not in fresh for each in table.filters
    )
    filters = tuple(
        each._replace(content=contents.get(each.name, fresh.get(each.name, each.content))) for each in table.filters
    )
    return _End(filters, off, met, toggle.marks, lost, how)


class Asked(NamedTuple):
    """What an ADM's own question to a service met there: no filter of the asker, and it has no marker."""

    moment: int
    asker: str
    helper: str
    port: int
    policies: tuple[Filter, ...]
    how: tuple[int, int, int, int]


def asked(walk: list[Moment]) -> Iterator[Asked]:
    """Every question of a filter at every moment, by connections and tables of every age."""
    known = {hop for moment in walk for hop in moment.config}
    seen: set[tuple[object, ...]] = set()
    for now in range(len(walk)):
        found = {hop: _ends(walk, now, hop) for hop in known}
        for hop, ends in found.items():
            for end in ends:
                met = (each for each in end.filters if each.name not in end.off)
                for helper in {target for each in met for target in targets(each.content)}:
                    for other in (key for key in known if key[0] == helper and key[1] is Side.INGRESS):
                        for into in found[other]:
                            held = tuple(each for each in into.filters if each.name not in into.off)
                            key = (now, hop[0], other, tuple((each.name, id(each.content)) for each in held))
                            if key not in seen:
                                seen.add(key)
                                yield Asked(now, hop[0], helper, other[3], held, (*end.how, *into.how))
