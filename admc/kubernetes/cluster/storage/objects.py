"""The objects of the kept state: those that lie in packs, and those that wait for the next pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from admc.kubernetes.cluster.storage.packs import digest_of, packed, unpacked
from admc.serve.storage.manifest import ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from admc.kubernetes.cluster.storage.packs import Pack

    Fetch = Callable[[Collection[str]], Mapping[str, bytes]]
    """Digests of parts -> the parts that exist, not verified."""


MAX_PACKS: Final = 16
SLACK: Final = 2 * 1024 * 1024
"""Packs with at most this sum of unused bytes are never too large."""


class _Stored(NamedTuple):
    pack: Pack
    length: int


class PackedObjects:
    """`Objects` of `admc.serve.storage.contents`. Not for use by several threads at once."""

    def __init__(self) -> None:
        self._stored: dict[str, _Stored] = {}
        self._new: dict[str, bytes] = {}
        self._read: dict[Pack, dict[str, bytes]] = {}
        """The contents of packs that were read, until `release`."""
        self._damage = ""
        """The fault of the first pack that cannot be used; empty without one."""

    def clear(self) -> None:
        """Forget which objects are stored."""
        self._stored, self._new, self._read = {}, {}, {}

    def release(self) -> None:
        """Drop the contents of packs: they are not needed any more."""
        self._read = {}

    def read(self, packs: Collection[Pack], fetch: Fetch) -> None:
        """Read these packs, and forget all others. A pack that was read before is not read again. Afterwards
        `is_damaged` says whether a pack could not be used."""
        there = {pack: self._read[pack] for pack in packs if pack in self._read}
        wanted = [pack for pack in packs if pack not in there]
        parts = fetch(sorted({part for pack in wanted for part in pack.parts})) if wanted else {}
        self._damage = ""
        for pack in wanted:
            try:
                there[pack] = unpacked(pack, [_sound(part, parts.get(part)) for part in pack.parts])
            except ManifestError as error:
                self._damage = self._damage or str(error)
        self._read, self._new = there, {}
        self._stored = {
            name: _Stored(pack, len(content)) for pack, objects in there.items() for name, content in objects.items()
        }

    @property
    def is_damaged(self) -> bool:
        """Whether a pack could not be read."""
        return bool(self._damage)

    def get(self, digest: str) -> bytes:
        """Return an object. Raises `ManifestError` if it was not read."""
        stored = self._stored.get(digest)
        content = None if stored is None else self._read.get(stored.pack, {}).get(digest)
        if content is None:
            raise ManifestError(self._damage or "a part of it is missing")
        return content

    def put(self, content: bytes) -> str:
        """Return the digest of an object. One that is not stored yet waits for the next pack."""
        digest = digest_of(content)
        if digest not in self._stored:
            self._new[digest] = content
        return digest

    def packs(self, wanted: Collection[str]) -> frozenset[Pack]:
        """Return the packs that have some of these objects."""
        return frozenset(stored.pack for name in wanted if (stored := self._stored.get(name)) is not None)

    def is_wasteful(self, wanted: Collection[str]) -> bool:
        """Whether these objects lie in too many packs, or in packs that are much larger than the objects."""
        packs = self.packs(wanted)
        used = sum(stored.length for name in wanted if (stored := self._stored.get(name)) is not None)
        return len(packs) >= MAX_PACKS or sum(pack.length for pack in packs) - used > max(used, SLACK)

    def pack_new(self, wanted: Collection[str]) -> tuple[Pack, dict[str, bytes]]:
        """Return a pack of the waiting objects that are wanted, and its parts."""
        return packed({name: content for name, content in self._new.items() if name in wanted})

    def stored(self, pack: Pack, wanted: Collection[str]) -> None:
        """Record that `pack` is stored. Of the packs that were stored before, only those with a wanted object still
        are."""
        packs = self.packs(wanted)
        self._stored = {name: item for name, item in self._stored.items() if item.pack in packs}
        self._stored |= {name: _Stored(pack, len(item)) for name, item in self._new.items() if name in wanted}
        self._new = {}


def _sound(digest: str, content: bytes | None) -> bytes:
    """Raises `ManifestError`."""
    if content is None:
        raise ManifestError(f"its part `{digest[:12]}…` is missing")
    if digest_of(content) != digest:
        raise ManifestError(f"its part `{digest[:12]}…` is not what admc stored")
    return content
