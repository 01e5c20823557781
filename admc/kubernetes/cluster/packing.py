"""Packs and unpacks the contents of ConfigMaps with gzip: always to the same bytes, and within a bound."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

LEVEL: Final = 6
_GZIP: Final = 31


class PackedError(Exception):
    """The content cannot be unpacked. With `too_large`, it has more bytes than the bound."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        self.too_large = too_large
        super().__init__(message)


def packed(content: bytes) -> bytes:
    return gzip.compress(content, LEVEL, mtime=0)


def unpacked(content: bytes, limit: int) -> bytes:
    """Return the content of one gzip file of at most `limit` bytes. Raises `PackedError`.

    At most `limit` + 1 bytes are unpacked, however much the file contains.
    """
    stream = zlib.decompressobj(_GZIP)
    try:
        plain = stream.decompress(content, limit + 1)
    except zlib.error as error:
        raise PackedError("it is not packed with gzip, or is damaged") from error
    if len(plain) > limit:
        raise PackedError(f"it has more than {limit:,} bytes when it is unpacked", too_large=True)
    if not stream.eof:
        raise PackedError("it is cut short")
    if stream.unused_data:
        raise PackedError("more follows after its end")
    return plain
