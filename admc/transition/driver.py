"""Where a transition is, and when it may go on: a state machine that is told what can be seen.

    Walk --look(Sight)--> Walk + what is waited for

It knows no clock, no server and no disk. Nothing is ever let go of because time has passed: a step is over when every
replica of every service it is about has acknowledged it, and only then does a wait for older connections begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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


class Client(Protocol):
    """A proxy, as the xDS server sees it (`xds_server.connection.ClientStatus`)."""

    @property
    def group(self) -> str: ...

    @property
    def acknowledged(self) -> str: ...


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
    """Services whose replicas all have the interception that the step asks for; None: that is taken care of."""
    closed: frozenset[str] | None = None
    """Destinations that NetworkPolicies close; None: that is taken care of."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A transition under way. `index` is the step that is published."""

    steps: tuple[Step, ...]
    index: int = 0
    back: bool = False
    """The transition is being undone: there is a newer plan, and the old side still stands."""
    since: float | None = None
    """When everything that the step waits for had been acknowledged."""

    @property
    def step(self) -> Step:
        return self.steps[self.index]

    @property
    def over(self) -> bool:
        """Whether this is the last step, in the direction of the walk."""
        return self.index == (0 if self.back else len(self.steps) - 1)

    def undone(self) -> Walk:
        """What to do with a newer plan: as long as the new side does not hold by itself, walk back.

        Each step changes one end only, so each is as safe backwards.
        """
        return self if self.may_end else replace(self, back=True, since=None)

    @property
    def at_old(self) -> bool:
        """Whether another transition would begin from the old plan."""
        return self.step.phase is Phase.ANNOUNCE

    @property
    def may_end(self) -> bool:
        """Whether another transition may begin from here at once: nothing has been done, or all of it."""
        return self.step.phase in (Phase.FINAL, Phase.CLEAN) or (self.at_old and not self.back)

    def look(self, sight: Sight, drain_seconds: float) -> tuple[Walk, tuple[str, ...]]:
        """Where the walk is now (perhaps at the next step, which is then to be published), and what it waits for."""
        # On the way back from where nothing has been let go of, whoever is away need not be waited for.
        harmless = self.back and self.step.phase in (Phase.ANNOUNCE, Phase.PREPARE)
        missing = _missing(self.step, sight, present=harmless)
        if missing:
            return replace(self, since=None), missing
        if self.since is None:
            return replace(self, since=sight.now), (TAKING_OVER,)
        # On the way back it is the first step that takes filters out of chains.
        drains = self.over if self.back else self.step.drain
        wait = drain_seconds + MARGIN_SECONDS if drains else SETTLE_SECONDS
        left = self.since + wait - sight.now
        if left > 0:
            return self, (OLDER if wait > SETTLE_SECONDS else TAKING_OVER,)
        if self.over:
            return self, ()
        return replace(self, index=self.index + (-1 if self.back else 1), since=None), ()


def _missing(step: Step, sight: Sight, *, present: bool) -> tuple[str, ...]:
    """Who has not acknowledged a step, in words; empty where all have, or all that are present."""
    found = []
    for service in step.awaits:
        nodes = [client for client in sight.clients if client.group == service]
        behind = sum(client.acknowledged != sight.wanted.get(service) for client in nodes)
        expected = max(1, sight.replicas.get(service, 1))
        if len(nodes) < expected and not present:
            found.append(f"`{service}`: {len(nodes)} of {expected} proxies are connected")
        elif behind:
            found.append(f"`{service}`: {behind} of {len(nodes)} proxies have not acknowledged")
    if present:
        return tuple(found)
    # Elsewhere nothing is let go of that could depend on it.
    if sight.intercepted is not None and step.phase is Phase.PREPARE:
        found += [f"`{name}`: its interception" for name in step.intercept if name not in sight.intercepted]
    if sight.closed is not None and step.phase is Phase.PREPARE:
        found += [f"`{name}`: a NetworkPolicy that closes it" for name in step.closes if name not in sight.closed]
    return tuple(found)
