"""Objects in packs, and packs in parts that fit into Secrets: pure.

    objects by digest --> pack: a line that lists them, then their contents --gzip--> parts of at most 512 KB, by digest

Each part and each object is named by its digest, so one that was altered is not used. The bytes of a pack depend on its
objects alone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from typing import TYPE_CHECKING, Final

from admc.serve.storage.manifest import ManifestError
from dsl.documents import Count, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_PART: Final = 512 * 1024
"""Bytes of a part. The API server takes Secrets of 1 MB."""
MAX_PARTS: Final = 256
"""The most parts of all packs together: 128 MB of the cluster's database, which has 2 GB by default."""
MAX_UNPACKED: Final = 512 * 1024 * 1024
"""Bytes of all packs together."""
LEVEL: Final = 6


@record
class Pack:
    """The size and the parts of a pack."""

    length: Count
    """The number of its bytes, unpacked."""
    parts: tuple[str, ...]
    """The digests of its parts, in order."""


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(objects: Mapping[str, bytes]) -> tuple[Pack, dict[str, bytes]]:
    """A pack of these objects, and its parts by digest."""
    names = sorted(objects)
    head = json.dumps([[name, len(objects[name])] for name in names]).encode() + b"\n"
    whole = b"".join([head, *(objects[name] for name in names)])
    small = gzip.compress(whole, LEVEL, mtime=0)
    parts = [small[at : at + MAX_PART] for at in range(0, len(small), MAX_PART)]
    return Pack(len(whole), tuple(map(digest_of, parts))), {digest_of(part): part for part in parts}


def unpacked(pack: Pack, parts: Sequence[bytes]) -> dict[str, bytes]:
    """Return the objects of a pack by digest; an object with another digest is left out. Raises `ManifestError`."""
    whole = _inflated(parts, pack.length)
    end = whole.find(b"\n")
    try:
        rows = [(str(name), int(length)) for name, length in json.loads(whole[: max(end, 0)])]
    except (ValueError, TypeError, RecursionError) as error:
        raise ManifestError("a pack of it does not say what it has") from error
    objects, at = {}, end + 1
    for name, length in rows:
        content = whole[at : at + length] if length >= 0 else b""
        at += max(0, length)
        if digest_of(content) == name:
            objects[name] = content
    return objects


def _inflated(parts: Sequence[bytes], length: int) -> bytes:
    """Unpack the parts, but never more than `length` bytes."""
    inflate = zlib.decompressobj(wbits=31)
    content = bytearray()
    try:
        for part in parts:
            content += inflate.decompress(part, length + 1 - len(content))
            if len(content) > length or inflate.unconsumed_tail or inflate.unused_data:
                raise ManifestError("a pack of it is larger than it says")
    except zlib.error as error:
        raise ManifestError("a pack of it cannot be unpacked") from error
    if len(content) != length or not inflate.eof:
        raise ManifestError("a pack of it is cut short")
    return bytes(content)
