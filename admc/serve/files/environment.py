"""Gives the server its inputs from files: the program, endpoints, identities and the state folder.

The server follows all files (`admc.serve.file_watch`). Redirection and NetworkPolicies are the operator's to apply, and
to confirm in the state folder.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NoReturn

from admc.base.exits import CommandError
from admc.base.files import read_bounded
from admc.compile.emit.emission import MAX_ENDPOINTS
from admc.serve.auth import identity
from admc.serve.file_watch import signature, until_changed
from admc.serve.files.closing import Closing
from admc.serve.files.redirection import Redirection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prometheus_client.metrics_core import Metric

    from admc.serve.auth.identity import Identities, Settings
    from admc.serve.compiling.source import Source
    from admc.serve.environment import Serving
    from admc.serve.file_watch import Signature
    from admc.serve.files.state_dir import StateDir
    from admc.serve.rollout.model import Placed
    from admc.serve.storage.position import Recipe
    from dsl.program import Program

LOG: Final = logging.getLogger("admc.serve")
NO_ENDPOINTS: Final = (
    "connections are redirected, but no addresses of services are known: ADMs refuse connections to which a policy "
    "applies; give `--endpoints FILE`, or `--mode explicit` to try it out on one machine"
)
CLOSING_SECONDS: Final = 0.5
"""How often the server reads the confirmations of NetworkPolicies."""
UNWRITTEN_SECONDS: Final = 5.0
"""The pause after a failure to write their files."""
ENDPOINTS_QUIET_SECONDS: Final = 0.01
"""A half-written file is not valid JSON, so this file need not be quiet for long."""


class ProgramFiles:
    """A program or a plan on disk, and all files that it uses."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seen: Signature = {source.path: None}

    async def current(self) -> Source:
        self._seen = await signature(self._seen)
        return self._source

    def compiled(self, files: Signature) -> None:
        self._seen = files

    async def changed(self) -> None:
        await until_changed(self._seen)


class EndpointsFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: Signature = {}

    async def current(self) -> bytes:
        # The signature is taken before the file is read: a change during the read causes another read.
        self._seen = await signature((self._path,))
        return await asyncio.to_thread(read_bounded, self._path, MAX_ENDPOINTS, "the endpoints file", regular=True)

    async def changed(self) -> None:
        await until_changed(self._seen, quiet=ENDPOINTS_QUIET_SECONDS)


class IdentityFiles:
    """The identities file and the tokens' keys."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: Signature | None = None
        """Before they were read first."""

    async def of(self, program: Program, *, ignore_unknown: bool = False) -> Identities:
        await self._look()
        return await asyncio.to_thread(identity.load, self._settings, program, ignore_unknown=ignore_unknown)

    async def changed(self) -> None:
        if not self._settings.files:
            await _never()
        await until_changed(await self._look())
        # The signature is taken before the files are read: a change during the read causes another read.
        self._seen = await signature(self._settings.files)

    async def _look(self) -> Signature:
        if self._seen is None:
            self._seen = await signature(self._settings.files)
        return self._seen


async def _never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


class FileEnvironment:
    """`admc.serve.environment.Environment`. The caller closes `state_dir`."""

    def __init__(
        self, source: Source, endpoints: Path | None, settings: Settings, state_dir: StateDir | None = None
    ) -> None:
        # The absolute path, so that the statuses of two servers differ.
        self.source = str(source.path.absolute())
        self.programs = ProgramFiles(source)
        self.addresses = None if endpoints is None else EndpointsFile(endpoints)
        self.identities = IdentityFiles(settings)
        self.storage = state_dir
        folder = None if state_dir is None else state_dir.folder
        self.redirection = Redirection(folder, explicit=not source.mode.redirected)
        self.closing = Closing(folder, explicit=not source.mode.redirected)
        self.replica: None = None
        self._lacks_endpoints = endpoints is None and source.mode.redirected

    def announced(self, plans: Sequence[Placed], recipe: Recipe | None) -> AbstractAsyncContextManager[object]:
        """The operator puts ADMs into pods, by the plan's file."""
        return nullcontext()

    def services(self, serving: Serving) -> Iterable[Callable[[Any], None]]:
        return ()

    def metrics(self) -> Iterable[Metric]:
        return ()

    @property
    def is_prepared(self) -> bool:
        """False: there is a program, which takes a moment to compile."""
        return False

    def may_publish(self) -> bool:
        """Return true: no other server uses the state folder."""
        return True

    async def run(self) -> int:
        if self._lacks_endpoints:
            LOG.warning("no_endpoints", extra={"text": NO_ENDPOINTS})
        while True:
            try:
                await asyncio.to_thread(self.closing.refresh)
                pause = CLOSING_SECONDS
            except CommandError as error:
                LOG.error(
                    "network_policies_not_written", extra={"findings": [item.message for item in error.diagnostics]}
                )
                pause = UNWRITTEN_SECONDS
            await asyncio.sleep(pause)
