"""Server-side apply that makes no request for a body that it has applied before, unless a watch has shown a difference
since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.body import Document
    from admc.kubernetes.cluster.api.requests import Api


class _Entry(NamedTuple):
    sent: str
    """The body that was sent, as canonical JSON."""
    kept: str
    """The same fields as the cluster stores them, with defaults filled in, as canonical JSON."""
    version: int


class Applied:
    """Remembers each body that was applied and how the cluster stored it, so that an equal body needs no request.

    A watch passes its objects to `seen`, which notices an object that was altered or deleted.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._entries: dict[tuple[str, str], _Entry] = {}

    async def apply(self, path: str, body: Document, *, subresource: str = "") -> bool:
        """Apply a body, and return whether that needed a request. Raises `ApiError`; the next call then makes a
        request."""
        place, sent = (path, subresource), _canonical(body)
        entry = self._entries.get(place)
        if entry is not None and entry.sent == sent:
            return False
        self._entries.pop(place, None)
        answer = await self._api.apply(path, body, subresource=subresource)
        self._entries[place] = _Entry(sent, _canonical(_common(answer, body)), _version(answer))
        return True

    def seen(self, path: str, stored: Document | None, *, subresource: str = "") -> bool:
        """Compare with the object as a watch shows it; None if it is gone. Returns whether it has to be applied
        again."""
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


def _common(answer: Any, body: Any) -> Any:
    """Return `answer` without the fields that `body` does not have. A list is taken as a whole: its items have no
    names."""
    if not isinstance(answer, dict) or not isinstance(body, dict):
        return answer
    return {name: _common(answer.get(name), value) for name, value in body.items()}


def _canonical(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _version(document: Document) -> int:
    """Return the version of an object as a number, which grows with each write; 0 if it is no number."""
    version = str(document.get("metadata", {}).get("resourceVersion", ""))
    return int(version) if version.isdecimal() and len(version) < 20 else 0
