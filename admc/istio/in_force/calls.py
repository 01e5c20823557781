"""Which workload calls which host."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Call(NamedTuple):
    namespace: str
    """Of the caller."""
    workload: str
    host: str


class Calls(NamedTuple):
    """The calls of a mesh. Where none are known, every workload may call each host that it sees."""

    known: frozenset[Call] | None = None

    def by_caller(self) -> Mapping[tuple[str, str], frozenset[str]] | None:
        """The hosts that each workload calls, by its namespace and name."""
        if self.known is None:
            return None
        made: dict[tuple[str, str], set[str]] = defaultdict(set)
        for call in self.known:
            made[call.namespace, call.workload].add(call.host)
        return {caller: frozenset(hosts) for caller, hosts in made.items()}


EVERY_CALL = Calls()
