"""What a client has asked for, of one type: names, everything, or nothing.

An empty list of names means everything, but only for the types that have a wildcard, only until a name (`*` too) was
asked for, and not from clients of gRPC, which never meant it so. After that, it means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

WILDCARD: Final = "*"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Names, with or without everything else."""

    names: frozenset[str] = frozenset()
    wildcard: bool = False
    named: bool = False
    """Whether a name was ever asked for."""

    def covers(self, name: str) -> bool:
        return self.wildcard or name in self.names

    def replaced(self, names: Collection[str], *, empty_is_all: bool) -> Subscription:
        """State of the world: each request has the whole list."""
        if not names and not self.named:
            return Subscription(wildcard=empty_is_all)
        return Subscription(frozenset(names) - {WILDCARD}, WILDCARD in names, named=True)

    def heard(self, names: Collection[str]) -> Subscription:
        """State of the world: names in a request that is ignored were asked for all the same."""
        return replace(self, named=True) if names and not self.named else self

    def changed(
        self, subscribe: Collection[str], unsubscribe: Collection[str], *, first: bool, empty_is_all: bool
    ) -> Subscription:
        """Delta: a request has what is new and what is not wanted any more.

        A name in both lists is asked for: who forgets and asks again in one breath wants to have it.
        """
        if first and not subscribe:
            return Subscription(wildcard=empty_is_all and WILDCARD not in unsubscribe)
        return Subscription(
            (self.names - set(unsubscribe) | set(subscribe)) - {WILDCARD},
            (self.wildcard and WILDCARD not in unsubscribe) or WILDCARD in subscribe,
            named=self.named or bool(subscribe),
        )
