"""The main loop of `admc serve`: starts all parts, runs until a signal, and shuts down.

After the first SIGTERM or SIGINT each stream ends as soon as its client has acknowledged the last response. A second
signal ends the process at once. Proxies keep their configuration, and reconnect to the next server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc import __version__
from admc.base.exits import Exit
from admc.serve.auth import handshakes
from admc.serve.auth.tls import CertificateFiles, Certificates
from admc.serve.observe import events as log
from admc.serve.observe import http as ops
from admc.serve.observe import status
from admc.serve.observe.metrics import Gauges, MetricSources
from admc.serve.observe.status import ServerPhase
from admc.serve.reconciler import Reconciler
from admc.serve.rollout.marker import concealed, concealed_text
from xds_server import csds
from xds_server.health import Health
from xds_server.transport.event_loop import GrpcEventLoop
from xds_server.transport.process import tune_garbage_collection
from xds_server.transport.server import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from admc.serve.auth.handshakes import HandshakeMonitor
    from admc.serve.auth.tls import Material, TlsFiles
    from admc.serve.environment import Environment
    from admc.serve.observe.events import LogFormat
    from admc.serve.observe.http import HttpServer
    from admc.serve.observe.status import ServerRow, Status
    from admc.serve.warm_start import WarmStart
    from xds_server.resources.snapshot import Snapshot

LOG: Final = logging.getLogger("admc.serve")
NOT_YET: Final = "the program has not been compiled yet"
GRACE_SECONDS: Final = 10.0
"""How long streams may take to end after a signal. Kubernetes gives a pod 30 s by default."""
SWITCH_SECONDS: Final = 0.0005
"""How long another thread may hold the interpreter lock while the event loop waits for it. A response to a client takes
the loop many iterations, and a computation in a thread (the steps to another plan of 10,000 services take seconds) may
delay each by this time."""
CERTIFICATE_SECONDS: Final = 5.0
"""Between checks of the certificate files."""


class ListenOptions(NamedTuple):
    """The addresses on which a server listens, the files of its certificate, and its log."""

    xds: tuple[str, int]
    ops: tuple[str, int]
    tls: TlsFiles | None
    log: LogFormat | None = None
    """None: text if standard error is a terminal, else JSON."""
    ops_names: tuple[str, ...] = ()
    """Names that clients may use in requests to the HTTP endpoints, besides the address."""


def serve(environment: Environment, listening: ListenOptions) -> int:
    """Serve until a signal, or until the environment ends it; returns the exit code. Raises `CommandError` if the
    server cannot start, or cannot continue a stored rollout."""

    async def served() -> int:
        certificate = None if listening.tls is None else CertificateFiles(listening.tls)
        return await serve_within(environment, listening, certificate)

    return run(served)


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a server to its end, on an event loop that is fit for it."""
    tune_garbage_collection()
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=GrpcEventLoop) as runner:
        return runner.run(main())


async def serve_within(
    environment: Environment,
    listening: ListenOptions,
    certificate: Callable[[], Material] | None,
    *,
    http: HttpServer | None = None,
    warm: WarmStart | None = None,
) -> int:
    """The same as `serve`, on the running event loop, which `run` has made. `certificate` returns that of the server;
    without it connections are plain text. `http` is the HTTP server of a replica that stood by, and goes on; without it
    the server listens at `--ops` itself. `warm` has the parts that were built ahead."""
    with nullcontext() if certificate is None else handshakes.monitored() as monitor:
        log.to_standard_error(listening.log)
        return await _Server(environment, listening, certificate, monitor, warm).run(http)


class _Server:
    def __init__(
        self,
        environment: Environment,
        listening: ListenOptions,
        certificate: Callable[[], Material] | None,
        monitor: HandshakeMonitor | None,
        warm: WarmStart | None,
    ) -> None:
        self._handshakes = monitor
        self._environment = environment
        self._listening = listening
        self._certificates = None if certificate is None else Certificates(certificate)
        self._started = time.time()
        self._stopping: signal.Signals | None = None
        self._stop = asyncio.Event()
        self._reconciler = Reconciler(environment, warm)
        self._config = self._reconciler.config
        self._health = Health()
        self._config.store.watchers.append(self._published)

    async def run(self, http: HttpServer | None) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        reconciler = self._reconciler
        server = self._config.server
        credentials = None if self._certificates is None else self._certificates.credentials
        may_administer = self._config.may_administer
        try:
            port = await server.start(
                ops.joined(*self._listening.xds),
                credentials,
                [
                    self._health.add,
                    lambda it: csds.add(it, server, may_administer, concealed, concealed_text),
                    *self._environment.services(self._config),
                ],
            )
        except ServerError as error:
            at = self._listening.xds
            raise ops.cannot_listen("--xds", ops.joined(*at), ops.bind_error(*at)) from error
        own_http: HttpServer | None = None
        if http is None:
            try:
                http = own_http = await ops.serve(self._view(), *self._listening.ops, self._listening.ops_names)
            except BaseException:
                await server.stop(0.0)
                raise
        else:
            http.show(self._view())
        fields = {
            "xds": ops.joined(self._listening.xds[0], port),
            "ops": ops.joined(*http.address),
            "tls": credentials is not None,
        }
        LOG.info("listening", extra=fields)
        environment = asyncio.create_task(self._environment.run())
        try:
            await self._until_stopped(environment)
            await self._drain(environment)
        except BaseException:
            await server.stop(0.0)
            raise
        finally:
            if own_http is not None:
                await own_http.stop()
            await reconciler.close()
            code = await _ended(environment)
        LOG.info("stopped")
        return code

    async def _until_stopped(self, environment: asyncio.Task[int]) -> None:
        tasks = [asyncio.create_task(work) for work in (self._reconciler.run(), self._refresh_certificates())]
        stop = asyncio.create_task(self._stop.wait())
        try:
            waiting: set[asyncio.Task[Any]] = {stop, environment, *tasks}
            while not stop.done() and not environment.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # raises after a bug in admc: the server ends, and its supervisor starts another
        finally:
            self._stop.set()
            self._health.set(serving=False)
            for task in (stop, *tasks):
                task.cancel()
            await asyncio.gather(stop, *tasks, return_exceptions=True)

    async def _drain(self, environment: asyncio.Task[int]) -> None:
        """End the streams, and store the last state.

        Where another replica takes over, the state is stored first, so that it need not wait for slow clients: what a
        client acknowledges later only shortens what the other one waits for.
        """
        replica, clients = self._environment.replica, {"clients": self._config.server.metrics.connected}
        if replica is None:
            LOG.info("draining", extra=clients)
            await self._config.server.stop(GRACE_SECONDS)
            await self._reconciler.save()
            return
        await self._reconciler.save()
        environment.cancel()
        await asyncio.wait({environment})  # it writes to the cluster, which the next replica will do
        await replica.resign()
        LOG.info("draining", extra=clients)
        await self._config.server.stop(GRACE_SECONDS)

    async def _refresh_certificates(self) -> None:
        """Load replaced certificates even while no client connects, so that errors in them show early."""
        while True:
            if self._certificates is not None:
                await asyncio.to_thread(self._certificates.refresh)
            await asyncio.sleep(CERTIFICATE_SECONDS)

    def _on_signal(self, number: signal.Signals) -> None:
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
        reconciler = self._reconciler
        sources = MetricSources(
            self._config.store.metrics,
            reconciler.counts,
            self._gauges,
            None if self._certificates is None else self._certificates.counts,
            None if self._handshakes is None else self._handshakes.failed,
            self._environment.metrics,
        )
        rollout = self._config.rollout
        commands = {"/rollout/abort": rollout.abort, "/rollout/continue": rollout.continue_}
        return ops.View(
            self._status,
            self._server_row,
            sources,
            commands,
            is_prepared=lambda: self._environment.is_prepared,
        )

    @property
    def _phase(self) -> ServerPhase:
        if self._stop.is_set():
            return ServerPhase.DRAINING
        return ServerPhase.SERVING if self._config.ready else ServerPhase.STARTING

    @property
    def _adms(self) -> frozenset[str]:
        state = self._config.state
        return frozenset() if state is None else frozenset(adm.service for adm in state.placement.adms)

    def _gauges(self) -> Gauges:
        adms, registry = self._adms, self._config.server.registry
        problems, replica = self._reconciler.problems, self._environment.replica
        return Gauges(
            ready=self._phase is ServerPhase.SERVING,
            version=__version__,
            adms=len(adms),
            adms_without_clients=len(adms - registry.groups),
            clients_out_of_sync=registry.behind,
            problem=bool(problems.summary),
            rollout_under_way=bool(self._config.rollout.text),
            unlisted=len(problems.unlisted.names),
            lease_held=None if replica is None else replica.role == status.ACTIVE,
        )

    def _server_row(self) -> ServerRow:
        reconciler = self._reconciler
        state = self._config.state
        replica = self._environment.replica
        return status.server_row(
            phase=self._phase,
            app="" if state is None else state.program.app,
            source=self._environment.source,
            state="" if state is None else state.version,
            started=self._started,
            why=reconciler.problems.summary or self._config.rollout.text or ("" if self._config.ready else NOT_YET),
            rollout=self._config.rollout.text,
            unlisted=reconciler.problems.unlisted.names,
            role=status.ACTIVE if replica is None else replica.role,
            holder="" if replica is None else replica.holder,
            in_network=status.in_network(placed.placement for placed in self._config.rollout.published),
        )

    def _status(self) -> Status:
        config = self._config
        wanted = {
            name: snapshot.version
            for name in config.store.groups
            if (snapshot := config.store.current(name)) is not None
        }
        return status.collect(self._server_row(), self._adms, wanted, config.server.clients())


async def _ended(environment: asyncio.Task[int]) -> int:
    """End the environment, and return the exit code of the server: that of the environment if it has ended the server,
    `Exit.DONE` after a signal. This comes after the last store."""
    if environment.done() and not environment.cancelled():
        return environment.result()
    environment.cancel()
    await asyncio.gather(environment, return_exceptions=True)
    return Exit.DONE
