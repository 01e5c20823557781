"""What one run of the benchmark found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.bench.cluster.replica import Usage


class Start(NamedTuple):
    """Of a server that finds nothing stored: seconds from the start of its process."""

    ready: float
    """It has loaded its modules, and asks the API server."""
    read: float
    """All lists are read."""
    in_force: float
    """The plan is compiled, stored and published."""
    compile: float
    """Of that, the compile in its process."""


class Takeover(NamedTuple):
    """Seconds from SIGKILL of the active replica."""

    active: float
    """The other one holds the Lease."""
    in_sync: float
    """The last client is in sync with it."""


class Step(NamedTuple):
    """Pods replaced for some seconds at one rate."""

    wanted: float
    reached: float
    """Replacements a second."""
    seconds: Sequence[float]
    """Of each address that some proxy needs: from the API server to the last acknowledgement."""
    late: int
    """Addresses that were not acknowledged by all within the time that a step allows after its last pod."""
    unused: int

    @property
    def keeps_up(self) -> bool:
        return not self.late and self.reached >= 0.95 * self.wanted


class Sample(NamedTuple):
    """At one moment of the last step."""

    at: float
    server: Usage
    others: Mapping[str, float]
    """Seconds of CPU so far of what is no part of the server."""


@dataclass
class Figures:
    """Whatever there is: a run that fails keeps what it has."""

    prepared: float = 0.0
    """Seconds until all pods ran."""
    adms: int = 0
    starts: list[Start] = field(default_factory=list)
    connected: float | None = None
    """Seconds until all clients were in sync for the first time, from the start of the clients."""
    needed: str = ""
    takeovers: list[Takeover] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    long: Step | None = None
    """The last one, which takes minutes."""
    samples: list[Sample] = field(default_factory=list)
    requests: dict[tuple[str, str], float] = field(default_factory=dict)
    """Verb and resource -> requests of the server in the last step."""
    ended_in_sync: bool = False
    programmed: str = ""
    """What the status of the Program says in the end."""
    problem: str = ""
    """Why it ended early."""
