"""Where a transition is, and when it may go on: a state machine that is told what can be seen.

    Walk --look(Sight)--> Walk + what is waited for

It knows no clock, no server and no disk. Nothing is ever let go of because time has passed: a step is over when every
replica of every service it is about has acknowledged it, and only then does a wait for older connections begin. Of a
service that has nothing in the step those that are there have to: its sidecars may have been taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from admc.transition.model import Phase

if TYPE_CHECKING:
    from admc.transition.model import Step

SETTLE_SECONDS: Final = 1.0
"""An acknowledgement says that a proxy's main thread has taken something. Its workers follow on their next turn."""
MARGIN_SECONDS: Final = 2.0
"""Added to the proxies' own drain time, which they count in whole seconds from when they begin."""


TAKING_OVER: Final = "proxies to take over what they acknowledged"
OLDER: Final = "connections that are older to be closed"


class Node(Protocol):
    """What a proxy calls itself."""

    @property
    def id(self) -> str: ...


class Client(Protocol):
    """A proxy, as the xDS server sees it (`xds_server.transport.client_registry.ClientView`)."""

    @property
    def group(self) -> str: ...

    @property
    def node(self) -> Node: ...

    @property
    def acknowledged(self) -> str:
        """Version of the last snapshot of which it has all; empty as long as it has just come."""

    @property
    def refuses(self) -> bool:
        """Whether it has refused something that it has not taken or given up since."""

    @property
    def fresh(self) -> bool:
        """Whether it had nothing when it came, as a process that has just been started."""


class Sight(NamedTuple):
    """What can be seen at one moment."""

    now: float
    """Seconds on a clock that never goes back."""
    clients: tuple[Client, ...]
    wanted: Mapping[str, str]
    """Version of what is published for each service."""
    replicas: Mapping[str, int]
    """How many proxies each service has to have."""
    intercepted: frozenset[str] | None = None
    """Services whose replicas all have the redirection that the step rests on; None: that is taken care of."""
    closed: frozenset[str] | None = None
    """Destinations that NetworkPolicies close; None: that is taken care of."""
    refused: frozenset[str] = frozenset()
    """Services of whose proxies some has refused what is published, though it may have been replaced since."""
    same: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Versions that were published for this very step before, with other addresses: whoever has one of them makes no
    connection that is older than the step."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A transition under way. `index` is the step that is published."""

    steps: tuple[Step, ...]
    index: int = 0
    back: bool = False
    """The transition is being undone: there is a newer plan, and the old side still stands."""
    since: float | None = None
    """When everything that the step waits for had been acknowledged."""
    ready: frozenset[tuple[str, str]] = frozenset()
    """The proxies (service and id) that had it then, or were started since. Whoever of them goes and comes back has no
    older connections."""
    settled: float | None = None
    """Since when nobody has been away or behind."""
    reached: int = 0
    """On the way back: the index of the last step that proxies may have had."""

    @property
    def step(self) -> Step:
        return self.steps[self.index]

    @property
    def over(self) -> bool:
        """Whether this is the last step, in the direction of the walk."""
        return self.index == (0 if self.back else len(self.steps) - 1)

    def undone(self) -> Walk:
        """What to do with a newer plan: as long as the new side does not hold by itself, walk back; else go on.

        Each step changes one end only, so each is as safe backwards.
        """
        if self.back or self.step.phase in (Phase.ANNOUNCE, Phase.FINAL, Phase.CLEAN):
            return self
        return self.taken_back()

    def taken_back(self) -> Walk:
        """What to do in `final` with a newer plan whose way would begin with what somebody refuses there: walk back.
        All had the step before, and whoever refuses this one has it still."""
        return replace(self, back=True, since=None, settled=None, reached=self.index)

    def redone(self) -> Walk:
        """What to do with a newer plan where the way back is refused: forward again, to the end.

        Whoever refuses a step on the way back has the one after it. From there each step is as safe as the first time:
        older connections are waited for again, too.
        """
        return replace(self, back=False, index=self.index + 1, since=None, settled=None, reached=0)

    def blocked(self, sight: Sight) -> bool:
        """Whether it is on the way back, and somebody refuses the step."""
        return self.back and not self.turning and self.refused(_about(self.step, sight), sight)

    def refused(self, services: Iterable[str], sight: Sight) -> bool:
        """Whether some proxy of these services refuses what is published, or has done so."""
        return any(service in sight.refused or _refusing(service, sight) for service in services)

    def lacking(self, sight: Sight) -> frozenset[str]:
        """The services that do not have the step yet."""
        return frozenset(service for service, _ in _behind(self.step, sight, present=False))

    @property
    def turning(self) -> bool:
        """Whether it has just been turned. All had the step before when this one was published, so that those two are
        all that anybody has: nobody is waited for, least of all who refuses this one."""
        return self.back and self.index == self.reached

    @property
    def _after_final(self) -> bool:
        """Whether it is the first step on a way back from `final`."""
        return self.index < self.reached and self.steps[self.index + 1].phase is Phase.FINAL

    @property
    def kept(self) -> int:
        """The index to go on with after a restart, which knows nothing of what proxies may have had."""
        return self.index - self.turning

    @property
    def at_old(self) -> bool:
        """Whether another transition would begin from the old plan."""
        return self.step.phase is Phase.ANNOUNCE

    @property
    def may_end(self) -> bool:
        """Whether another transition may begin from here at once: nothing has been done, or all of it and no
        connection is left that is older, or nothing changes sides, so that no filter waits to be skipped in older
        connections."""
        if self.back:
            return False
        simple = self.step.phase is Phase.FINAL and all(step.phase is not Phase.PREPARE for step in self.steps)
        return simple or self.step.phase is Phase.CLEAN or self.at_old

    def left(self, now: float, drain_seconds: float) -> float | None:
        """Seconds until the last connection is closed that is older; None where that cannot be said yet."""
        return None if self.since is None else max(0.0, self.since + drain_seconds + MARGIN_SECONDS - now)

    def look(self, sight: Sight, drain_seconds: float) -> tuple[Walk, tuple[str, ...]]:
        """Where the walk is now (perhaps at the next step, which is then to be published), and what it waits for."""
        if self.turning:
            return replace(self, index=self.index - 1), ()
        # What holds at both sides leaves the old one at `receivers` or later: connections that were made then have to
        # be gone before the new side lets go again.
        both_left = self.back and any(step.phase is Phase.RECEIVERS for step in self.steps[: self.reached + 1])
        # On the way back from where nothing has been let go of, whoever is away need not be waited for.
        harmless = self.back and (self.at_old or (self.step.phase is Phase.PREPARE and not both_left))
        missing = _missing(self.step, sight, present=harmless)
        if missing:
            # Streams end and come back all the time, and so do pods: only who has something from before the step may
            # have made connections meanwhile.
            since = None if _older(self.step, sight) else self.since
            return replace(self, since=since, settled=None), missing
        awaited = frozenset(_about(self.step, sight))
        nodes = frozenset((each.group, each.node.id) for each in sight.clients if each.group in awaited)
        if not nodes <= self.ready or self.since is None:
            # Others came. What has just been started has been told nothing but this step.
            brought = {(each.group, each.node.id) for each in sight.clients if not each.fresh}
            anew = self.since is None or not nodes & brought <= self.ready
            since, ready = (sight.now, nodes) if anew else (self.since, self.ready | nodes)
            return replace(self, since=since, ready=ready, settled=sight.now), (TAKING_OVER,)
        if self.settled is None:
            return replace(self, settled=sight.now), (TAKING_OVER,)
        # On the way back it is the first step that takes filters out of chains, and connections that were made in
        # `final` have none of those that left.
        back = self.over or self._after_final or (both_left and self.step.drain)
        drains = back if self.back else self.step.drain
        older = drains and self.since + drain_seconds + MARGIN_SECONDS > sight.now
        if older or self.settled + SETTLE_SECONDS > sight.now:
            return self, (OLDER if older else TAKING_OVER,)
        if self.over:
            return self, ()
        return replace(self, index=self.index + (-1 if self.back else 1), since=None, settled=None), ()


def _about(step: Step, sight: Sight) -> tuple[str, ...]:
    """The services whose proxies have to acknowledge a step. Who leaves, and has never been told anything, has not."""
    return (*step.awaits, *(name for name in step.leaves if name in sight.wanted))


def _older(step: Step, sight: Sight) -> bool:
    """Whether some proxy is known to have something from before the step, or strangers may have come in meanwhile.

    Redirection that is asked for again, for other addresses, is waited for and makes nobody older: the rules themselves
    refuse whatever is older than they are.
    """
    if step.phase is Phase.PREPARE and _unseen(step.closes, sight.closed):
        return True
    awaited = frozenset(_about(step, sight))
    mine = (client for client in sight.clients if client.group in awaited and client.acknowledged)
    return any(
        client.acknowledged != sight.wanted.get(client.group)
        and client.acknowledged not in sight.same.get(client.group, ())
        for client in mine
    )


def _unseen(names: Iterable[str], seen: frozenset[str] | None) -> list[str]:
    return [] if seen is None else [name for name in names if name not in seen]


def _refusing(service: str, sight: Sight) -> int:
    """How many proxies of a service do not have what is published since they refuse it."""
    wanted = sight.wanted.get(service)
    return sum(each.group == service and each.refuses and each.acknowledged != wanted for each in sight.clients)


def _missing(step: Step, sight: Sight, *, present: bool) -> tuple[str, ...]:
    """Who has not acknowledged a step, in words; empty where all have, or all that are present."""
    found = [words for _, words in _behind(step, sight, present=present)]
    if present:
        return tuple(found)
    # Elsewhere nothing is let go of that could depend on it.
    if step.phase is Phase.PREPARE:
        found += [f"`{name}`: its interception" for name in _unseen(step.rests, sight.intercepted)]
        found += [f"`{name}`: a NetworkPolicy that closes it" for name in _unseen(step.closes, sight.closed)]
    return tuple(found)


def _behind(step: Step, sight: Sight, *, present: bool) -> Iterator[tuple[str, str]]:
    """Services whose proxies have not acknowledged a step, and the same in words."""
    required = frozenset(step.awaits)
    # The way to any plan that moves something begins with what this one begins with.
    which = "a newer plan that moves nothing" if step.phase is Phase.ANNOUNCE else "a newer plan"
    clients: dict[str, list[Client]] = {}
    for client in sight.clients:
        clients.setdefault(client.group, []).append(client)
    for service in _about(step, sight):
        nodes = clients.get(service, [])
        behind = sum(client.acknowledged != sight.wanted.get(service) for client in nodes)
        expected = max(1, sight.replicas.get(service, 1)) if service in required else 0
        # A proxy that came back may still have the stream that it lost, and is one all the same.
        there = len({client.node.id for client in nodes})
        refusing = _refusing(service, sight)
        if refusing:
            lack = f"{refusing} of {len(nodes)} proxies refused it ({which} mends that)"
        elif there < expected and not present:
            lack = f"{there} of {expected} proxies are connected"
        elif behind and service in sight.refused:
            lack = f"{behind} of {len(nodes)} proxies do not have it, since it was refused ({which} mends that)"
        elif behind:
            lack = f"{behind} of {len(nodes)} proxies have not acknowledged"
        else:
            continue
        yield service, f"`{service}`: {lack}"
