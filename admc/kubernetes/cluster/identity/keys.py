"""The public keys of the cluster's tokens: fetched once, and again when a token names a key that is not among them.

Clients choose the key that their tokens name, so the keys are fetched at most once in some seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError
from admc.serve.auth.tokens import LEEWAY, MAX_TOKEN, UnknownKeyError, keys_from
from xds_server.transport.client import DeniedError, NotYetError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from admc.serve.auth.tokens import TokenClaims, TokenKeys

LOG: Final = logging.getLogger("admc.cluster")
PATH: Final = "/openid/v1/jwks"
"""The path where an API server publishes the keys. Every service account may read it."""
FETCH_SECONDS: Final = 5.0
"""The least time between two requests for the keys."""
REMEMBERED: Final = 50_000
"""How many verified tokens are remembered. To verify a signature costs 0.1 ms, and identities are checked again when
pods change."""


class ClusterKeys:
    """Verifies tokens with the keys that the cluster has at present. All calls belong on one event loop."""

    def __init__(
        self, audience: str, fetch: Callable[[], Awaitable[bytes]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._audience = audience
        self._fetch = fetch
        self._clock = clock
        self._keys: TokenKeys | None = None
        self._known: dict[bytes, TokenClaims] = {}
        """Digest of a token -> its claims, which were verified with the present keys."""
        self._why = ""
        """Why the last fetch failed; empty if it succeeded."""
        self._fetched = float("-inf")
        """When the keys were fetched last."""
        self._fetch_due = asyncio.Event()
        self._fetch_due.set()
        self.replaced = asyncio.Event()
        """Set when the keys have changed. The reader clears it."""

    def verify(self, token: str) -> TokenClaims:
        """Return the claims of a token. Raises `DeniedError`, and `NotYetError` while the key of the token may be on
        its way."""
        if self._keys is None:
            raise NotYetError("not_yet", "the keys of the cluster's tokens have not been fetched yet")
        digest = hashlib.sha256(token[: MAX_TOKEN + 1].encode(errors="replace")).digest()
        claims = self._known.get(digest)
        if claims is None:
            try:
                claims = self._keys.verify(token)
            except UnknownKeyError as error:
                # A key counts as unknown only if the keys were fetched a moment ago, and no fetch is due.
                if not self._fetch_due.is_set() and self._is_recent:
                    raise
                self._fetch_due.set()
                raise NotYetError("not_yet", "its token is signed with a key that is being looked for") from error
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[digest] = claims
        if claims.expires + LEEWAY <= time.time():
            del self._known[digest]
            raise DeniedError("expired", "its token has expired")
        return claims

    async def follow(self) -> None:
        """Fetch the keys, and fetch them again whenever a token needs it, until cancelled."""
        while True:
            await self._fetch_due.wait()
            await self.fetch_once()
            await asyncio.sleep(FETCH_SECONDS)

    @property
    def _is_recent(self) -> bool:
        return self._clock() < self._fetched + FETCH_SECONDS

    async def fetch_once(self) -> None:
        """Fetch the keys once. If there is no answer, or its keys cannot be used, the present keys stay."""
        try:
            keys = keys_from(await self._fetch(), self._audience, PATH)
        except CommandError as error:
            self._report("keys_refused", error.diagnostics[0].message)
        except Exception as error:
            # The API server may be away for any reason: the keys stay, and the next attempt follows.
            self._report("keys_not_fetched", str(error)[:300])
        else:
            self._why = ""
            self._fetch_due.clear()
            self._fetched = self._clock()
            if keys != self._keys:
                self._keys = keys
                self._known.clear()
                self.replaced.set()

    def _report(self, event: str, why: str) -> None:
        """Log a problem, once as long as it stays the same."""
        if why != self._why:
            LOG.warning(event, extra={"why": why})
        self._why = why
