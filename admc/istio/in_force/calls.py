"""Which workload calls which host."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.istio.mesh.model import Workload


class Call(NamedTuple):
    namespace: str
    """Of the caller."""
    workload: str
    host: str


class Calls(NamedTuple):
    """The calls of a mesh. Where none are known, every workload may call each host that it sees."""

    known: frozenset[Call] | None = None

    def may(self, workload: Workload, hosts: Iterable[str]) -> bool:
        """Whether a workload calls any of some hosts."""
        if self.known is None:
            return True
        return any(Call(workload.namespace, workload.name, host) in self.known for host in hosts)


EVERY_CALL = Calls()
