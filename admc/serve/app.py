"""The main loop of `admc serve`: everything is built here, runs until a signal, and ends in good order.

The first SIGTERM or SIGINT lets streams end as soon as their clients owe no answer; a second one ends at once. Proxies
keep what they have and come back to whoever serves next.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from admc import __version__
from admc.exits import Exit
from admc.serve.auth import handshakes
from admc.serve.auth.tls import Certificates, TlsFiles
from admc.serve.observe import events as log
from admc.serve.observe import http as ops
from admc.serve.observe import status
from admc.serve.observe.metrics import Now, Sources
from admc.serve.observe.status import Phase
from admc.serve.reconciler import Serving
from admc.transition.marker import concealed, concealed_text
from emitters.envoy import Mode
from xds_server import csds
from xds_server.health import Health
from xds_server.transport.event_loop import GrpcEventLoop
from xds_server.transport.process import tune_garbage_collection
from xds_server.transport.server import ServerError

if TYPE_CHECKING:
    from admc.serve.active_config import Options
    from admc.serve.auth.handshakes import Handshakes
    from admc.serve.observe.events import LogFormat
    from admc.serve.observe.status import ServerRow, Status
    from xds_server.resources.snapshot import Snapshot

LOG: Final = logging.getLogger("admc.serve")
NOT_YET: Final = "the program has not been compiled yet"
NO_ENDPOINTS: Final = (
    "connections are redirected, and nothing says where services are: those that a policy is about are refused; "
    "give `--endpoints FILE`, or `--mode explicit` to try it out on one machine"
)
GRACE_SECONDS: Final = 10.0
"""For streams to end. What Kubernetes gives a pod by default is three times as much."""
SWITCH_SECONDS: Final = 0.0005
"""How long a thread may compute while the event loop wants to go on. An answer to a client takes the loop many turns,
and what is computed beside it (the steps to another plan of 10,000 services take seconds) costs it this at each."""
LOOK_SECONDS: Final = 5.0
"""How often files are looked at for which a moment more or less means nothing."""


class Listening(NamedTuple):
    """Where a server listens, with which certificate, and how it logs: as text to a terminal unless told otherwise."""

    xds: tuple[str, int]
    ops: tuple[str, int]
    tls: TlsFiles | None
    log: LogFormat | None = None


def serve(options: Options, listening: Listening) -> int:
    """Serve until a signal says to stop. Raises `CommandError` where it cannot begin."""
    tune_garbage_collection()
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=GrpcEventLoop) as runner:
        return runner.run(_serve(options, listening))


async def _serve(options: Options, listening: Listening) -> int:
    with nullcontext() if listening.tls is None else handshakes.heard() as refused:
        log.to_standard_error(listening.log)
        return await _Run(options, listening, refused).run()


class _Run:
    def __init__(self, options: Options, listening: Listening, refused: Handshakes | None) -> None:
        self._refused = refused
        self._options = options
        self._listening = listening
        self._certificates = None if listening.tls is None else Certificates(listening.tls)
        self._started = time.time()
        self._stopping: signal.Signals | None = None
        self._stop = asyncio.Event()
        self._serving = Serving(options)
        self._force = self._serving.force
        self._health = Health()
        self._force.store.watchers.append(self._published)

    async def run(self) -> int:
        serving = self._serving
        server = self._force.server
        credentials = None if self._certificates is None else self._certificates.credentials
        may_ask = self._force.may_administer
        try:
            port = await server.start(
                _joined(*self._listening.xds),
                credentials,
                [
                    self._health.add,
                    lambda it: csds.add(it, server, may_ask, concealed, concealed_text),
                ],
            )
        except ServerError as error:
            at = self._listening.xds
            raise ops.cannot_listen("--xds", _joined(*at), ops.why_not(*at)) from error
        try:
            shown = await ops.serve(self._view(), *self._listening.ops)
        except BaseException:
            await server.stop(0.0)
            raise
        said = {
            "xds": _joined(self._listening.xds[0], port),
            "ops": _joined(*shown.address),
            "tls": credentials is not None,
        }
        LOG.info("listening", extra=said)
        if self._options.endpoints is None and self._options.source.mode is Mode.REDIRECT:
            LOG.warning("no_endpoints", extra={"text": NO_ENDPOINTS})
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._heard, number)
        try:
            await self._until_stopped()
            LOG.info("draining", extra={"clients": server.metrics.connected})
            await server.stop(GRACE_SECONDS)
            await serving.keep()
        finally:
            await shown.stop()
            await serving.close()
        LOG.info("stopped")
        return Exit.DONE

    async def _until_stopped(self) -> None:
        tasks = [asyncio.create_task(each) for each in (self._serving.follow(), self._look_after())]
        stop = asyncio.create_task(self._stop.wait())
        try:
            waiting = {stop, *tasks}
            while not stop.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # a bug of admc: it ends the server, and who runs it starts another
        finally:
            for task in (stop, *tasks):
                task.cancel()
            await asyncio.gather(stop, *tasks, return_exceptions=True)

    async def _look_after(self) -> None:
        """Certificates that are replaced are used though nobody connects: so it shows that they are good."""
        while True:
            if self._certificates is not None:
                await asyncio.to_thread(self._certificates.refresh)
            await asyncio.sleep(LOOK_SECONDS)

    def _heard(self, number: signal.Signals) -> None:
        if self._stopping is not None:
            LOG.warning("cut_short", extra={"signal": signal.Signals(number).name})
            os._exit(128 + number)
        self._stopping = number
        self._health.set(serving=False)
        LOG.info("stopping", extra={"signal": signal.Signals(number).name})
        self._stop.set()

    def _published(self, group: str, old: Snapshot | None, new: Snapshot) -> None:
        self._health.set(serving=self._stopping is None)

    def _view(self) -> ops.View:
        serving = self._serving
        sources = Sources(
            self._force.store.metrics,
            serving.counts,
            self._now,
            None if self._certificates is None else self._certificates.counts,
            None if self._refused is None else self._refused.refused,
        )
        return ops.View(self._status, self._row, sources)

    @property
    def _phase(self) -> Phase:
        return Phase.DRAINING if self._stop.is_set() else Phase.SERVING if self._force.ready else Phase.STARTING

    @property
    def _adms(self) -> frozenset[str]:
        state = self._force.state
        return frozenset() if state is None else frozenset(adm.service for adm in state.placement.adms)

    def _now(self) -> Now:
        adms, registry = self._adms, self._force.server.registry
        alone = len(adms - registry.groups)
        unlisted = len(self._serving.problems.unlisted.names)
        serves = self._phase is Phase.SERVING
        return Now(serves, __version__, len(adms), alone, registry.behind, *self._standing, unlisted)

    @property
    def _standing(self) -> tuple[bool, bool]:
        return bool(self._serving.problems.said), bool(self._force.moving.said)

    def _row(self) -> ServerRow:
        serving = self._serving
        state = self._force.state
        return status.server_row(
            phase=self._phase,
            app="" if state is None else state.program.app,
            # Whole, so that the answers of two servers can be told apart.
            source=str(self._options.source.path.absolute()),
            state="" if state is None else state.version,
            started=self._started,
            why=serving.problems.said or self._force.moving.said or ("" if self._force.ready else NOT_YET),
            transition=self._force.moving.said,
            unlisted=serving.problems.unlisted.names,
        )

    def _status(self) -> Status:
        force = self._force
        wanted = {
            name: snapshot.version for name in force.store.groups if (snapshot := force.store.current(name)) is not None
        }
        return status.of(self._row(), self._adms, wanted, force.server.clients())


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
