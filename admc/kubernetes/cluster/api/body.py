"""Reads answers of the API server within bounds: an answer as a whole, a watch line by line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.api.errors import ApiError
from dsl.collector import no_collection

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

MAX_PAGE: Final = 64 * 2**20
"""Bytes of a page of a list, unpacked. One of 500 pods has 3 to 6 MB."""
MAX_OBJECT: Final = 16 * 2**20
"""Bytes of one object, as an answer or as a line of a watch. etcd takes objects up to 1.5 MB; their JSON is larger. As
values of Python, nonsense takes twenty times as much."""

Document = dict[str, Any]


class TooLargeError(ApiError):
    """The answer, or a line of it, is larger than its bound."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            0, "TooLarge", f"{what} has more than {limit // 2**20 or limit} {'MB' if limit >= 2**20 else 'bytes'}"
        )


async def whole(chunks: AsyncIterable[bytes], limit: int) -> bytes:
    """Read a whole answer. Raises `TooLargeError`."""
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise TooLargeError("the answer", limit)
    return bytes(content)


async def start(chunks: AsyncIterable[bytes], limit: int) -> bytes:
    """Read the first bytes of an answer, and leave the rest unread."""
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) >= limit:
            break
    return bytes(content[:limit])


async def lines(chunks: AsyncIterable[bytes], limit: int = MAX_OBJECT) -> AsyncIterator[bytes]:
    """Yield each complete line that is not blank. Raises `TooLargeError`, and `ApiError` if the answer ends within a
    line."""
    begun = bytearray()
    async for chunk in chunks:
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            begun += chunk[at:end]
            if len(begun) > limit:
                raise TooLargeError("a line of a watch", limit)
            line = bytes(begun)
            begun.clear()
            at = end + 1
            if line.strip():
                yield line
        begun += chunk[at:]
        if len(begun) > limit:
            raise TooLargeError("a line of a watch", limit)
    if begun:
        raise ApiError(0, "Incomplete", "the watch ended within a line")


def parse(content: bytes, status: int = 0) -> Document:
    """Parse a JSON object. Raises `ApiError`."""
    try:
        with no_collection():  # it would take three times as long for a page of pods
            document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ApiError(status, "NoJson", f"the answer is no JSON ({error}): {content[:100]!r}") from error
    if not isinstance(document, dict):
        raise ApiError(status, "NoJson", f"the answer is no JSON object: {content[:100]!r}")
    return document
