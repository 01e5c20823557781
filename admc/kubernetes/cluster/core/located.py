"""The addresses of several programs in one document: those in force, and the one that comes into force next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rpds import HashTrieMap

from admc.kubernetes.cluster.core.addresses import Endpoints, document_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.kubernetes.cluster.core.followed import FollowedProgram


class Located(NamedTuple):
    """The addresses of all programs that are published."""

    endpoints: tuple[Endpoints, ...] = ()
    """Those of each program."""
    document: bytes = Endpoints().document
    """An endpoints file (docs/endpoints.md)."""
    entries: Mapping[str, bytes] = HashTrieMap()
    """Service -> its entry in the document; empty if it is not listed."""


def located(before: Located, programs: Sequence[FollowedProgram]) -> Located:
    """Return the addresses of these programs; `before` itself, if none has changed. Where two programs have a service
    of the same name, the first program decides, even if it does not list the service."""
    endpoints = tuple(program.endpoints for program in programs)
    if len(before.endpoints) == len(endpoints) and all(map(_is, before.endpoints, endpoints)):
        return before
    if len(endpoints) == 1:
        return Located(endpoints, endpoints[0].document, endpoints[0].entries)
    entries: dict[str, bytes] = {}
    for own in reversed(endpoints):
        entries |= own.entries
    probes = {name: document for own in reversed(endpoints) for name, document in own.probes.items()}
    rows = rows_of(dict(sorted(entries.items())))
    return Located(endpoints, document_of(rows, dict(sorted(probes.items()))), entries)


def _is(one: object, other: object) -> bool:
    return one is other
