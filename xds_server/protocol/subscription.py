"""The subscription of a client to one type: names, a wildcard, or nothing.

An empty list of names is a wildcard if all of these hold, and otherwise a subscription to nothing:

    - the type has a wildcard
    - no request has had a name yet (`*` is a name, too)
    - the client is not a client of gRPC
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

WILDCARD: Final = "*"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Names, with or without the wildcard."""

    names: frozenset[str] = frozenset()
    wildcard: bool = False
    named: bool = False
    """Whether a request has ever had a name."""

    def covers(self, name: str) -> bool:
        return self.wildcard or name in self.names

    def replaced(self, names: Collection[str], *, empty_is_all: bool) -> Subscription:
        """State of the world: each request has all names."""
        if not names and not self.named:
            return Subscription(wildcard=empty_is_all)
        return Subscription(frozenset(names) - {WILDCARD}, WILDCARD in names, named=True)

    def ignoring(self, names: Collection[str]) -> Subscription:
        """State of the world: the request is ignored. If it has names, later empty lists are no wildcards."""
        return replace(self, named=True) if names and not self.named else self

    def changed(
        self, subscribe: Collection[str], unsubscribe: Collection[str], *, first: bool, empty_is_all: bool
    ) -> Subscription:
        """Delta: a request has the names to add and the names to drop. A name in both lists is added."""
        if first and not subscribe:
            return Subscription(wildcard=empty_is_all and WILDCARD not in unsubscribe)
        return Subscription(
            (self.names - set(unsubscribe) | set(subscribe)) - {WILDCARD},
            (self.wildcard and WILDCARD not in unsubscribe) or WILDCARD in subscribe,
            named=self.named or bool(subscribe),
        )
