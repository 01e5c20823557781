"""Names of hosts, and how those with a wildcard match, as Istio compares them."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from admc.istio.mesh.references import full_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value = TypeVar("Value")
_REMEMBERED: Final = 1 << 16
"""The most names of hosts whose full name is kept: each namespace that sees a resource asks for its hosts."""


def is_wild(host: str) -> bool:
    return host.startswith("*")


@lru_cache(maxsize=_REMEMBERED)
def resolved(host: str, namespace: str) -> str:
    """The full name of a host that a resource names; an address stays as it is."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return full_name(host, namespace).lower()
    return host


def overlaps(one: str, other: str) -> bool:
    """Whether two names may stand for the same host."""
    if is_wild(one) and is_wild(other):
        short, long = sorted((one[1:], other[1:]), key=len)
        return long.endswith(short)
    if is_wild(one):
        return other.endswith(one[1:])
    if is_wild(other):
        return one.endswith(other[1:])
    return one == other


def is_within(host: str, other: str) -> bool:
    """Whether all hosts of the first name are hosts of the other one."""
    if is_wild(other):
        return host.removeprefix("*").endswith(other[1:])
    return host == other


class Names:
    """Names of hosts, of which one is looked for that may stand for the same host."""

    def __init__(self, names: Iterable[str]) -> None:
        every = frozenset(names)
        self._exact = frozenset(name for name in every if not is_wild(name))
        self._ends = tuple(name[1:] for name in every if is_wild(name))

    def overlap(self, host: str) -> bool:
        if not is_wild(host):
            return host in self._exact or host.endswith(self._ends)
        return any(overlaps(host, name) for name in self._exact) or any(overlaps(host, f"*{end}") for end in self._ends)


class ByNamespace:
    """Names of hosts with their namespaces."""

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        self._named: dict[str, set[str]] = defaultdict(set)
        for name, namespace in named:
            self._named[name].add(namespace)
        self._wild = [name for name in self._named if is_wild(name)]

    def of_others(self, host: str, namespace: str) -> bool:
        """Whether a name may stand for a host of another namespace."""
        names = self._named if is_wild(host) else (host, *self._wild)
        return any(self._named.get(name, set()) - {namespace} for name in names if overlaps(host, name))


class ByHost(Generic[Value]):
    """Values by names of hosts, of which the most specific one for a host is found."""

    def __init__(self, named: Mapping[str, Value]) -> None:
        self._named = named
        self._ends = sorted((name[1:] for name in named if is_wild(name)), key=len, reverse=True)

    def most_specific(self, host: str) -> Value | None:
        """The value for a host itself, or of the longest wildcard around it."""
        if host in self._named:
            return self._named[host]
        own = host.removeprefix("*")
        end = next((end for end in self._ends if own.endswith(end)), None)
        return None if end is None else self._named[f"*{end}"]
