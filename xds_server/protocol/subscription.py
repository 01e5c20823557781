"""The subscription of a client to one type: names, a wildcard, or nothing.

An empty list of names is a wildcard, but only for types that have one, only before the first name (`*` too), and not
from clients of gRPC. After the first name it is a subscription to nothing.
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
        """State of the world: the request is ignored, but its names end the meaning of an empty list as a wildcard."""
        return replace(self, named=True) if names and not self.named else self

    def changed(
        self, subscribe: Collection[str], unsubscribe: Collection[str], *, first: bool, empty_is_all: bool
    ) -> Subscription:
        """Delta: a request has the names that are added and those that are dropped. A name in both lists is added."""
        if first and not subscribe:
            return Subscription(wildcard=empty_is_all and WILDCARD not in unsubscribe)
        return Subscription(
            (self.names - set(unsubscribe) | set(subscribe)) - {WILDCARD},
            (self.wildcard and WILDCARD not in unsubscribe) or WILDCARD in subscribe,
            named=self.named or bool(subscribe),
        )
