"""What requests can meet while proxies follow a rollout, each in its own time.

    labels that are published, one after the other -> every way of a request -> what it meets

Nothing of the schedule is repeated here. Of a step, the model takes which plans a hop's filter chain has the filters
of, and what its route table says. It knows how proxies behave:

- A label is published when every proxy has the one before. So at any moment each proxy has label `n` or `n + 1`.
- A connection has the filter chain that its proxy had when it was made. Its chain has the route table of the proxy's
  present label if that has the same chain, or else the last one that the chain had.
- Connections that are older than a label are gone once that label has waited for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.publication.closing import destinations
from admc.serve.rollout.model import Placed, Plan, Port
from dsl.program import Side, Stage
from emitters.envoy.names import filter_name
from emitters.hops import hops
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from admc.serve.rollout.model import Step
    from dsl.program import Policy
    from emitters.hops import Hop

Key = tuple[str, Side, str, int]
"""Whose ADM, side, destination, target port."""


class Closed(NamedTuple):
    """NetworkPolicies."""

    plans: tuple[int, ...]
    """Of which plans they are, together."""
    admitted: Mapping[Port, frozenset[str]]
    """(destination, target) -> parties."""


class Table(NamedTuple):
    """What a route table has requests meet, by policies in order."""

    unmarked: tuple[Policy, ...] = ()
    marked: tuple[Policy, ...] | None = None
    """None: the marker means nothing."""
    marks: bool = False


class State(NamedTuple):
    """A hop under one label. No chain: connections pass through."""

    chain: object
    table: Table


NOTHING = State(None, Table())


class Label(NamedTuple):
    """What is published at one moment."""

    said: str
    states: Mapping[Key, State]
    plans: tuple[int, ...]
    """The plans whose enforcement is right."""
    floor: int
    """The label that the oldest connections may be from."""
    closed: tuple[Closed, ...]
    """The NetworkPolicies of which some may be in force meanwhile."""


class Plans:
    """Some plans, in one frame by pairs, and what each enforces."""

    def __init__(self, plans: Sequence[Placed]) -> None:
        self.plans = plans

    @cached_property
    def hops(self) -> list[dict[Key, Hop]]:
        """The hops of each plan, by its own program."""
        return [
            {
                (service, hop.side, hop.destination, hop.port.target): hop
                for service, held in hops(*placed).items()
                for hop in held
            }
            for placed in self.plans
        ]

    def rest(self, plan: int) -> dict[Key, State]:
        return {key: State(chain_of(hop), Table(hop.policies)) for key, hop in self.hops[plan].items()}

    def step(self, old: int, new: int, step: Step) -> dict[Key, State]:
        found = {}
        numbers = {Plan.OLD: old, Plan.NEW: new}
        for service, parts in step.parts.items():
            for hop, plan, *_ in parts:
                key = (service, hop.side, hop.destination, hop.port.target)
                if plan is not None:
                    own = self.hops[numbers[plan]][key]
                    found[key] = State(chain_of(own), Table(own.policies))
                    continue
                both = {each: self.hops[number].get(key) for each, number in numbers.items()}
                policies = {each: own.policies if own is not None else () for each, own in both.items()}
                chains = [chain_of(own) if own is not None else ("bare",) for own in both.values()]
                chain = chains[0] if chains[0] == chains[1] else ("both", *chains)
                if not hop.carries_requests:
                    met = {policy.name: policy for each in Plan for policy in policies[each]}
                    found[key] = State((chain, "tcp"), Table((*policies[Plan.OLD], *met.values())))
                    continue
                overlay = step.overlays[service, hop.name]
                marked = None if overlay.marked is None else policies[overlay.marked]
                found[key] = State(chain, Table(policies[overlay.unmarked], marked, overlay.marks))
        return found


def chain_of(hop: Hop) -> object:
    """What makes a filter chain another one: its filters, and not their arguments."""
    return tuple(filter_name("", policy) for policy in hop.policies if hop.stage(policy) is Stage.FILTER) or ("bare",)


class Met(NamedTuple):
    """What a request met."""

    moment: int
    policies: tuple[tuple[Side, Policy], ...]
    how: tuple[object, ...]
    leaks: bool = False
    """The marker arrives at the receiver's process: its ADM does not take it away."""


class World:
    """All labels that were published."""

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.labels: list[Label] = []
        self._closed: tuple[Closed, ...] = (Closed((), {}),)

    def close(self, *plans: int) -> bool:
        """Write the NetworkPolicies that these plans need together, the newest last. Until `settle`, earlier ones may
        be in force. Returns whether anything differs."""
        wanted = destinations([self.plans.plans[plan] for plan in plans])
        made = {(name, at): its.parties for name, closed in wanted.items() for at, its in closed.admitted.items()}
        *earlier, last = self._closed
        if made == last.admitted:
            self._closed = (*earlier, last._replace(plans=(*last.plans, *plans)))
            return False
        self._closed = (*self._closed, Closed(plans, made))
        return True

    def settle(self, names: Collection[str]) -> None:
        """The NetworkPolicies of these destinations are in force as they were written last."""
        last = {port: parties for port, parties in self._closed[-1].admitted.items() if port[0] in names}
        settled = [
            closed._replace(
                admitted={port: its for port, its in closed.admitted.items() if port[0] not in names} | last
            )
            for closed in self._closed
        ]
        # The same NetworkPolicies are those of the plans for which they were written last.
        known = [closed.admitted for closed in settled]
        self._closed = tuple(it for index, it in enumerate(settled) if it.admitted not in known[index + 1 :])

    def publish(self, said: str, states: Mapping[Key, State], plans: Sequence[int], floor: int | None = None) -> None:
        """`floor`: connections that are older are gone by now; None: as before."""
        earlier = self.labels[-1].floor if self.labels else 0
        self.labels.append(Label(said, states, tuple(plans), earlier if floor is None else floor, self._closed))

    def ends(self, now: int, key: Key) -> list[tuple[Table, tuple[int, int]]]:
        """Every table that a connection may have while label `now` is published: with what its proxy has, and when the
        connection was made."""
        found: dict[object, tuple[Table, tuple[int, int]]] = {}
        for present in {max(0, now - 1), now}:
            # A label is not published before what the one before waits for is over.
            for made in range(self.labels[now].floor, present + 1):
                table = self._table(made, present, key)
                shape = (tuple(map(id, table.unmarked)), tuple(map(id, table.marked or ())), table.marked is None)
                found.setdefault((*shape, table.marks), (table, (made, present)))
        return list(found.values())

    def _table(self, made: int, present: int, key: Key) -> Table:
        chain = self.labels[made].states.get(key, NOTHING).chain
        for label in range(present, made - 1, -1):
            state = self.labels[label].states.get(key, NOTHING)
            if state.chain == chain:
                return state.table
        raise AssertionError

    def ways(self, source: str, destination: str, port: int, *, lost: bool = False) -> Iterator[Met]:
        """Everything that a request of a call may meet. `lost`: its marker, if it has one, does not arrive."""
        for now in range(len(self.labels)):
            outs = self.ends(now, (source, Side.EGRESS, destination, port))
            intos = self.ends(now, (destination, Side.INGRESS, destination, port))
            for (out, sent), (into, received) in product(outs, intos):
                marked = out.marks and not lost and into.marked is not None
                there = into.marked if marked and into.marked is not None else into.unmarked
                met = [(Side.EGRESS, policy) for policy in out.unmarked]
                met += [(Side.INGRESS, policy) for policy in there]
                leaks = out.marks and into.marked is None
                yield Met(now, tuple(met), (self.labels[now].said, sent, received, out.marks), leaks)

    def sent_by_adms(self) -> Iterator[tuple[str, str, Key, Met]]:
        """What ADMs send by themselves: by which service, for which policy, to which hop, and what it meets there."""
        keys = {key for label in self.labels for key in label.states}
        for now in range(len(self.labels)):
            for key in sorted(keys):
                helpers = {
                    (policy.name, helper)
                    for table, _ in self.ends(now, key)
                    for policy in table.unmarked
                    for helper in targets(policy)
                }
                for name, helper in helpers:
                    for there in sorted(keys):
                        if there[0] == helper and there[1] is Side.INGRESS:
                            for into, how in self.ends(now, there):
                                met = tuple((Side.INGRESS, policy) for policy in into.unmarked)
                                yield key[0], name, there, Met(now, met, (self.labels[now].said, key, how))
