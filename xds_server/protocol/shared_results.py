"""Computes differences, versions and payloads once for all streams in step, which share these results.

Streams in step hold the very same mappings, so results are looked up by the identity of their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from xds_server.protocol.wire import PayloadCache
from xds_server.resources.snapshot import (
    ClientResource,
    Collection,
    Difference,
    Resource,
    Snapshot,
    difference,
    version_of,
)
from xds_server.resources.types import ENDPOINTS, ROUTES

if TYPE_CHECKING:
    from collections.abc import Hashable

REMEMBERED: Final = 128
"""The number of results that are kept for the next stream in step."""
REMEMBERED_NAMES: Final = 500_000
"""The most names in all operands of these results. A client can subscribe to names that no other client has."""
FEW: Final = 16
"""A result from fewer resources is computed, not looked up, unless it is the last result of its sort: that is
faster."""

RESPONSE_BYTES: Final = 4_000_000
"""A little less than the default limit of gRPC clients for one message."""
ENVELOPE_BYTES: Final = 64
"""The most bytes for lengths, keys and the version of one resource in a response."""

T = TypeVar("T")
Operand = Mapping[str, ClientResource] | Mapping[str, ClientResource | None] | Collection | Snapshot | None
Tables = Callable[[Mapping[str, ClientResource], Mapping[str, Resource]], Mapping[str, Resource]]
"""Makes the route tables of one step of a handover from the tables that a client has and the tables of the target."""


class _Remembered(NamedTuple):
    """A result with its operands. While the operands are kept, no other object gets their identities."""

    result: object
    one: Operand
    other: Operand

    @property
    def names(self) -> int:
        return sum(len(operand) for operand in (self.one, self.other) if isinstance(operand, Mapping))


class SharedResults:
    """The cache of results for all streams of one server."""

    def __init__(self, response_bytes: int = RESPONSE_BYTES) -> None:
        self.payloads = PayloadCache()
        self._response_bytes = response_bytes
        self._memo: dict[tuple[Hashable, int, int], _Remembered] = {}
        self._names = 0
        """The number of names in the operands of all remembered results."""
        self._last: dict[Hashable, _Remembered] = {}
        """The last result of each sort. Streams in step need the same result, one right after the other."""

    def difference(self, known: Mapping[str, ClientResource], wanted: Mapping[str, Resource]) -> Difference:
        return self._remember("difference", known, wanted, lambda: difference(known, wanted))

    def version(self, resources: Mapping[str, ClientResource]) -> str:
        return self._remember("version", resources, None, lambda: version_of(resources))

    def in_order(self, content: Mapping[str, ClientResource | None]) -> tuple[Resource, ...]:
        """The resources of a response, by name."""

        def ordered() -> tuple[Resource, ...]:
            return tuple(item for _, item in sorted(content.items()) if isinstance(item, Resource))

        return self._remember("in order", content, None, ordered, few=len(content) < FEW)

    def parts(self, content: Mapping[str, ClientResource | None]) -> tuple[Mapping[str, ClientResource | None], ...]:
        """The content of a response, divided into parts within the limit of size. Removals come first, as Envoy applies
        them first, and then the resources by name."""

        def split() -> tuple[Mapping[str, ClientResource | None], ...]:
            if sum(_size(name, item) for name, item in content.items()) <= self._response_bytes:
                return (content,)
            contents: list[dict[str, ClientResource | None]] = [{}]
            left = self._response_bytes
            for name, item in sorted(content.items(), key=lambda pair: (pair[1] is not None, pair[0])):
                size = _size(name, item)
                if size > left and contents[-1]:
                    contents.append({})
                    left = self._response_bytes
                contents[-1][name] = item
                left -= size
            return tuple(contents)

        return self._remember("parts", content, None, split, few=len(content) < FEW)

    def used(
        self, content: Mapping[str, ClientResource | None], before: Mapping[str, ClientResource], type_url: str
    ) -> frozenset[str]:
        """The names of a type that the new and changed resources of a response refer to. `before`: the resources that
        the client had."""

        def names() -> frozenset[str]:
            return frozenset(
                reference.name
                for name, item in content.items()
                if isinstance(item, Resource) and not ((held := before.get(name)) and held.version == item.version)
                for reference in item.references
                if reference.type_url == type_url
            )

        return self._remember(("used", type_url), content, before, names, few=len(content) < FEW)

    def needs(self, known: Mapping[str, ClientResource], root: str, target: Snapshot) -> Mapping[str, frozenset[str]]:
        """By type URL, the names in a snapshot that the client's resources of one type refer to there."""

        def names() -> Mapping[str, frozenset[str]]:
            there = target.of_type(root).resources
            needed: dict[str, set[str]] = {}
            for reference in {reference for name in known if name in there for reference in there[name].references}:
                if reference.name in target.of_type(reference.type_url).resources:
                    needed.setdefault(reference.type_url, set()).add(reference.name)
            return {type_url: frozenset(names) for type_url, names in needed.items()}

        return self._remember(("needs", root), known, target, names)

    def handover_tables(
        self, tables: Tables, held: Mapping[str, ClientResource], wanted: Mapping[str, Resource]
    ) -> Collection:
        """Route tables of one step of a handover."""
        return self._remember(tables, held, wanted, lambda: Collection(ROUTES, tables(held, wanted)))

    def overlaid(self, under: Collection, over: Collection) -> Collection:
        """The resources of both collections. If both have a name, the resource of `over` is used."""

        def both() -> Collection:
            return Collection(under.type_url, dict(sorted({**under.resources, **over.resources}.items())))

        return self._remember("overlaid", under, over, both)

    def _remember(
        self, sort: Hashable, one: Operand, other: Operand, compute: Callable[[], T], *, few: bool = False
    ) -> T:
        """Return the result of a sort for exactly these operands. Each sort has one type of result."""
        last = self._last.get(sort)
        if last is not None and last.one is one and last.other is other:
            return cast("T", last.result)
        if few:
            remembered = _Remembered(compute(), one, other)
        else:
            remembered = self._look_up((sort, id(one), id(other)), one, other, compute)
        self._last[sort] = remembered
        return cast("T", remembered.result)

    def _look_up(
        self, key: tuple[Hashable, int, int], one: Operand, other: Operand, compute: Callable[[], T]
    ) -> _Remembered:
        remembered = self._memo.pop(key, None)
        if remembered is None:
            remembered = _Remembered(compute(), one, other)
            self._names += remembered.names
            while self._memo and (len(self._memo) >= REMEMBERED or self._names > REMEMBERED_NAMES):
                self._names -= self._memo.pop(next(iter(self._memo))).names
                self._last.clear()
        self._memo[key] = remembered
        return remembered


def _size(name: str, item: ClientResource | None) -> int:
    """The most bytes that a resource takes in a response. A removal of endpoints is sent as an empty list."""
    name_bytes = len(name.encode())
    body = len(item.body) + len(item.type_url) if isinstance(item, Resource) else len(ENDPOINTS) + name_bytes
    return ENVELOPE_BYTES + name_bytes + body
