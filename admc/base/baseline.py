"""The services that can host an ADM: commands compare the number of ADMs with the number of these services."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from admc.base.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Iterable


class Host(Protocol):
    """A service, of a program or of a plan."""

    @property
    def can_host(self) -> bool: ...

    @property
    def replicas(self) -> int: ...


class Baseline(NamedTuple):
    """The sidecars of a full mesh. A sidecar is counted for each replica."""

    services: int
    hosts: int
    """Services that can host an ADM."""
    sidecars: int
    """Replicas of these services."""
    sidecars_everywhere: int
    """Replicas of all services, as if each could host one."""

    def sentence(self, adms: int, one: str, many: str, *, share: bool = False) -> str:
        """Return `4 of 11 services that can host one get an ADM (17 services in all)`.

        `one` and `many` are the verb for one ADM and for several; `share` adds the percentage.
        """
        able = "" if self.hosts == self.services else " that can host one"
        notes = [f"{round(100 * adms / self.hosts)}%"] if share and self.hosts else []
        if able:
            notes.append(f"{counted(self.services, 'service')} in all")
        text = f"{adms} of {counted(self.hosts, 'service')}{able} {one if adms == 1 else many} an ADM"
        return f"{text} ({', '.join(notes)})" if notes else text


def baseline_of(services: Iterable[Host]) -> Baseline:
    every = tuple(services)
    hosts = tuple(service for service in every if service.can_host)
    return Baseline(
        len(every),
        len(hosts),
        sum(service.replicas for service in hosts),
        sum(service.replicas for service in every),
    )
