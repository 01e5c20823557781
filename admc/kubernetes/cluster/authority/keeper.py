"""Keeps the Secret of the authority. All replicas follow it, and the active one takes the steps that are due.

    Secret admc-NAME-authority <--get, create, replace--> AuthorityKeeper --material--> TLS of the xDS server
                                                                --bundle--> ConfigMaps of proxies

A replica replaces only the version that it has read, so of two that take a step at once one begins again from what the
other one has stored. What a step makes is used once it is stored.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.authority.authorities import AuthorityError, advanced, from_data, to_data
from admc.kubernetes.cluster.authority.certificates import life, normal_name
from admc.kubernetes.cluster.authority.schedule import Step, next_step
from admc.kubernetes.cluster.names import CONTROLLER, GROUP
from admc.serve.auth.tls import Material

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from admc.kubernetes.cluster.api.body import Document
    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.authority.authorities import Authorities

LOG: Final = logging.getLogger("admc.cluster")
TYPE: Final = f"{GROUP}/authority"
LOOK_SECONDS: Final = 30.0
SOON_SECONDS: Final = 1.0
"""The time between two looks while nothing usable is known, or when another replica was first."""
REQUEST_SECONDS: Final = 10.0
REPAIR: Final = "repair it, or delete it while no replica runs: then the server makes another authority"


class AuthorityKeeper:
    """All calls belong on one event loop, except `material`."""

    def __init__(
        self,
        api: Api,
        installation: str,
        namespace: str,
        names: Collection[str],
        may_write: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`names` are those by which clients reach the server. `clock` returns seconds since 1970."""
        self._api, self._installation, self._namespace = api, installation, namespace
        self._names, self._may_write, self._clock = frozenset(map(normal_name, names)), may_write, clock
        self._name = f"admc-{installation}-authority"
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._authorities: Authorities | None = None
        """As the Secret has them, or had them when it was usable last."""
        self._material: Material | None = None
        self._usable = asyncio.Event()
        self.problem = ""
        """Why the Secret cannot be read, used or written at present; empty if it can."""

    @property
    def bundle(self) -> str:
        """The authorities that proxies trust, in PEM; empty before there are any."""
        return "" if self._authorities is None else self._authorities.bundle

    def material(self) -> Material:
        """The server's certificate and key. Safe to call in any thread, after `until_usable`."""
        assert self._material is not None  # noqa: S101 - as the sentence says
        return self._material

    async def until_usable(self) -> None:
        """Wait until there is an authority with a certificate."""
        await self._usable.wait()

    async def run(self, is_shown: Callable[[str], bool]) -> None:
        """Follow the Secret, and take the steps that are due while this replica is active; until cancelled. `is_shown`
        returns whether these authorities are in every ConfigMap."""
        while True:
            pause = LOOK_SECONDS
            try:
                await self.look(is_shown)
                self._report("")
            except ApiError as error:
                if error.is_conflict or error.is_already_there:
                    pause = SOON_SECONDS  # the next look shows what another replica has stored
                else:
                    self._report(str(error))
            except AuthorityError as error:
                self._report(str(error))
            except TimeoutError:
                self._report("the API server did not answer in time")
            await asyncio.sleep(pause if self._usable.is_set() else SOON_SECONDS)

    async def look(self, is_shown: Callable[[str], bool]) -> None:
        """Read the Secret, and take all steps that are due. Raises `ApiError`, `AuthorityError` and `TimeoutError`."""
        secret = await self._read()
        if secret is not None:
            self._use(self._authorities_in(secret))
        elif self._authorities is not None and self._may_write():
            await self._write(None, self._authorities)
            LOG.error("authority_renewed", extra={"where": self._where})
            return
        for _ in Step:  # each is taken once at most
            if not self._may_write():
                return
            before, now = self._authorities, self._clock()
            times = None if before is None else before.times(self._names)
            step = next_step(times, now, is_shown=is_shown(self.bundle))
            if step is Step.NOTHING:
                return
            after = advanced(before, step, self._installation, self._names, now)
            secret = await self._write(secret, after)
            self._use(after)
            ends = {"authority_ends": _text(life(after.signer.certificate).ends)}
            LOG.info("authority_step", extra={"step": step, **ends})

    async def _read(self) -> Document | None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._api.get(f"{self._collection}/{self._name}")
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    def _authorities_in(self, secret: Document) -> Authorities:
        """Raises `AuthorityError`."""
        data = secret.get("data")
        try:
            contents = {name: base64.b64decode(value, validate=True) for name, value in (data or {}).items()}
            return from_data(contents)
        except (AuthorityError, AttributeError, TypeError, ValueError) as error:
            what = str(error) if isinstance(error, AuthorityError) else "its data is not in base64"
            raise AuthorityError(f"the Secret `{self._where}` cannot be used: {what}; {REPAIR}") from None

    async def _write(self, secret: Document | None, authorities: Authorities) -> Document:
        """Replace the Secret, if it still has the version of `secret`; create it if there is none."""
        metadata: dict[str, Any] = {"name": self._name, "labels": {CONTROLLER: self._installation}}
        body: Document = {"apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": metadata}
        body["data"] = {name: base64.b64encode(value).decode() for name, value in to_data(authorities).items()}
        async with asyncio.timeout(REQUEST_SECONDS):
            if secret is None:
                return await self._api.create(self._collection, body)
            metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
            # The API server refuses a change of the type.
            return await self._api.replace(f"{self._collection}/{self._name}", {**body, "type": secret.get("type")})

    def _use(self, authorities: Authorities) -> None:
        serving = authorities.serving
        self._authorities = authorities
        self._material = Material(serving.certificate_pem, serving.key_pem, None, life(serving.certificate).ends)
        self._usable.set()

    @property
    def _where(self) -> str:
        return f"{self._namespace}/{self._name}"

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            LOG.error("authority_not_kept", extra={"why": problem})
        self.problem = problem


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
