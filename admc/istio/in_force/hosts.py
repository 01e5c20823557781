"""Names of hosts, and how those with a wildcard match, as Istio compares them."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, TypeVar

from admc.istio.mesh.references import full_name

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = TypeVar("Value")


def is_wild(host: str) -> bool:
    return host.startswith("*")


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


def most_specific(host: str, named: Mapping[str, Value]) -> tuple[str, Value] | None:
    """The entry for a host: its own, or that of the longest wildcard around it."""
    if host in named:
        return host, named[host]
    end = host.removeprefix("*")
    around = [name for name in named if is_wild(name) and end.endswith(name[1:])]
    if not around:
        return None
    best = max(around, key=len)
    return best, named[best]
