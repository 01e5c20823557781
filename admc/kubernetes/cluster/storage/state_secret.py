"""The Secret that names the parts. It is also the fence: a replica can replace only the version that it knows.

A replica that becomes active claims the Secret with a write of its own. From then on a replica that was active before
cannot replace it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.storage.packs import digest_of
from admc.kubernetes.cluster.storage.record import INDEX, content_of, version_of, writer_of

if TYPE_CHECKING:
    from admc.kubernetes.cluster.storage.record import Document, Names, Record
    from admc.kubernetes.cluster.storage.secrets import Secrets

ATTEMPTS: Final = 5
"""Attempts to replace the Secret while it changes."""
REMEMBERED: Final = 16


class SupersededError(Exception):
    """Another replica has written the Secret."""


class StateSecret:
    """The coroutines raise `ApiError` and `NotHolderError`."""

    def __init__(self, secrets: Secrets, names: Names, writer: str) -> None:
        self._secrets, self._names, self._writer = secrets, names, writer
        self._version: str | None = None
        """The version that this replica may replace; "" if there is no Secret; None if the version has to be read."""
        self._own: deque[str] = deque(maxlen=REMEMBERED)
        """Digests of the contents that this replica has written last, or tried to write."""

    async def get(self) -> Document | None:
        return await self._secrets.get(self._names.state)

    async def claim(self) -> Document:
        """Claim the Secret, and return it with this replica as its last writer."""
        for _ in range(ATTEMPTS):
            there = await self.get()
            try:
                answer = there if there is not None and writer_of(there) == self._writer else await self._claim(there)
            except ApiError as error:
                if not _has_changed(error):
                    raise
                continue  # a replica that was active until now has just written
            self._version = version_of(answer)
            self._own.append(_digest(answer))
            return answer
        raise ApiError(409, "Conflict", f"it changed {ATTEMPTS} times while it was read")

    async def _claim(self, there: Document | None) -> Document:
        if there is None:
            return await self._secrets.create(self._names.secret(self._names.state, {}, self._writer))
        claim = self._names.secret(self._names.state, {}, self._writer, version=version_of(there))
        # The API server refuses a change of the type.
        return await self._secrets.replace({**claim, "data": there.get("data") or {}, "type": there.get("type")})

    async def replace(self, content: bytes) -> None:
        """Replace the content of the Secret. Raises `SupersededError` too."""
        self._own.append(digest_of(content))
        for _ in range(ATTEMPTS):
            if self._version is None:
                self._version = await self._own_version()
            secret = self._names.secret(self._names.state, {INDEX: content}, self._writer, version=self._version)
            version, self._version = self._version, None
            # If the answer is lost, the Secret may be written all the same: the next attempt then finds it as its own.
            try:
                answer = await (self._secrets.replace(secret) if version else self._secrets.create(secret))
            except ApiError as error:
                if not _has_changed(error):
                    raise
                continue
            self._version = version_of(answer)
            return
        raise ApiError(409, "Conflict", f"it changed {ATTEMPTS} times while it was written")

    async def _own_version(self) -> str:
        there = await self.get()
        if there is None:
            return ""
        writer = writer_of(there)
        if writer != self._writer:
            by = f"another server, `{writer}`" if writer else "something that is no server of admc"
            raise SupersededError(f"the Secret `{self._names.state}` was written by {by}")
        return version_of(there)

    def forget(self) -> None:
        """Forget the version, so that it is read again before the Secret is replaced."""
        self._version = None

    def is_own(self, record: Record) -> bool:
        """Whether this replica has written the Secret with this content."""
        return record.writer == self._writer and record.digest in self._own


def _digest(secret: Document) -> str:
    return digest_of(content_of(secret, INDEX) or b"")


def _has_changed(error: ApiError) -> bool:
    return error.is_conflict or error.is_already_there or error.is_not_found
