"""Server-side applies, and none where nothing changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.body import Document


class Writer(Protocol):
    """What it needs of `Api`."""

    async def apply(self, path: str, body: Document, *, force: bool = True, subresource: str = "") -> Document: ...


class _Entry(NamedTuple):
    sent: str
    """The body, canonical."""
    kept: str
    """The same fields as the cluster has them, defaults filled in, canonical."""
    version: int


class Applied:
    """What was applied last, and what the cluster made of it: the same again makes no request.

    A watch that reports the objects to `seen` makes it notice one that was altered or deleted.
    """

    def __init__(self, api: Writer) -> None:
        self._api = api
        self._entries: dict[tuple[str, str], _Entry] = {}

    async def apply(self, path: str, body: Document, *, subresource: str = "") -> bool:
        """Returns whether it needed a request. Raises `ApiError`; then the next one makes a request."""
        place, sent = (path, subresource), _canonical(body)
        entry = self._entries.get(place)
        if entry is not None and entry.sent == sent:
            return False
        self._entries.pop(place, None)
        answer = await self._api.apply(path, body, subresource=subresource)
        self._entries[place] = _Entry(sent, _canonical(_common(answer, body)), _version(answer))
        return True

    def seen(self, path: str, stored: Document | None, *, subresource: str = "") -> bool:
        """The object as a watch shows it; None: it is gone. Returns whether it has to be applied again."""
        entry = self._entries.get((path, subresource))
        if entry is None:
            return False
        if stored is not None:
            version = _version(stored)
            if version and version < entry.version:
                return False  # the watch is behind the last apply
            if _canonical(_common(stored, json.loads(entry.sent))) == entry.kept:
                return False
        del self._entries[(path, subresource)]
        return True

    def forget(self, path: str) -> None:
        """The object is deleted, or another writer is to have it."""
        self._entries = {place: entry for place, entry in self._entries.items() if place[0] != path}


def _common(answer: Any, body: Any) -> Any:
    """`found` without the fields that `body` does not have. Lists as a whole: what is in them has no names."""
    if not isinstance(answer, dict) or not isinstance(body, dict):
        return answer
    return {name: _common(answer.get(name), value) for name, value in body.items()}


def _canonical(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _version(document: Document) -> int:
    """The API server's versions of one object are ascending numbers; 0 where it is none."""
    version = str(document.get("metadata", {}).get("resourceVersion", ""))
    return int(version) if version.isdecimal() and len(version) < 20 else 0
