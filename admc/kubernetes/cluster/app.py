"""`admc serve --cluster`: one replica of an installation, from its start to its end.

connect --> watches --> stand by --Lease--> serve --> exit
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import time
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, Exit
from admc.compile.facts import FACTS
from admc.kubernetes.cluster.address_source import ClusterAddresses
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.lease import LeaseHolder
from admc.kubernetes.cluster.authority.given import GivenAuthority
from admc.kubernetes.cluster.authority.keeper import AuthorityKeeper
from admc.kubernetes.cluster.core.facts import FactState
from admc.kubernetes.cluster.decode import PodDecoder
from admc.kubernetes.cluster.environment import ClusterEnvironment, jwks
from admc.kubernetes.cluster.follow import Cluster
from admc.kubernetes.cluster.identity.keys import PATH as KEYS
from admc.kubernetes.cluster.identity.keys import ClusterKeys
from admc.kubernetes.cluster.program_source import ClusterPrograms
from admc.kubernetes.cluster.proxy_config import ProxyConfig
from admc.kubernetes.cluster.standby.address import ActiveAddress
from admc.kubernetes.cluster.standby.standby import Standby
from admc.kubernetes.cluster.standby.standing_by import StandingBy
from admc.kubernetes.cluster.standby.state_follower import StateFollower
from admc.kubernetes.cluster.storage.record import Names
from admc.kubernetes.cluster.storage.secrets import Secrets
from admc.kubernetes.cluster.storage.storage import SecretStorage
from admc.kubernetes.cluster.storage.watch import watched
from admc.kubernetes.cluster.webhook.webhook import ClusterWebhook
from admc.kubernetes.inject.model import AUDIENCE_PREFIX
from admc.kubernetes.inject.model import Installation as Injection
from admc.kubernetes.inject.recognised import recognised
from admc.serve.app import run, serve_within
from admc.serve.observe import events as log
from admc.serve.observe import http as ops
from admc.serve.warm_start import WarmStart

if TYPE_CHECKING:
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.inject.spec import Amounts
    from admc.serve.app import ListenOptions
    from admc.serve.observe.http import HttpServer
    from admc.serve.storage.position import Recipe, StoredState

LOG: Final = logging.getLogger("admc.cluster")
END_SECONDS: Final = 5.0


class Installation(NamedTuple):
    """An installation, as the command line describes it."""

    name: str
    namespace: str
    reached_at: tuple[str, int]
    """Host and port at which pods reach the xDS server."""
    authority: Path | None
    """The certificates by which pods trust the server's certificate, if that is given; None: the server makes both."""
    image: str
    envoy_image: str
    also_images: tuple[str, ...]
    also_envoy_images: tuple[str, ...]
    limits: Amounts | None
    """Of the resources of ADMs."""
    address: str
    """The address of this replica, for the EndpointSlice."""
    kubeconfig: Path | None
    effort: float | None
    webhook: tuple[str, int] | None = None
    """Where the webhook listens, if it does."""


def serve(installation: Installation, listening: ListenOptions) -> int:
    """Serve until a signal, or until another replica takes over. Raises `CommandError`."""

    async def replica() -> int:
        log.to_standard_error(listening.log)
        async with await connect(installation.kubeconfig) as api:
            return await _Replica(installation, listening, api).run()

    return run(replica)


class _Replica:
    def __init__(self, installation: Installation, listening: ListenOptions, api: Api) -> None:
        self._listening = listening
        name, namespace = installation.name, installation.namespace
        host, port = installation.reached_at
        reached = ops.joined(host, port)
        replica = f"{socket.gethostname()}-{uuid.uuid4().hex[:12]}"
        own, envoy = installation.image, installation.envoy_image
        injection = Injection(name, reached, own, envoy, installation.also_images, installation.also_envoy_images)
        self._cluster = Cluster(api, name, namespace, PodDecoder(lambda pod: recognised(pod, injection)))

        async def keys() -> bytes:
            return jwks(await api.get(KEYS))

        self._keys = ClusterKeys(AUDIENCE_PREFIX + name, keys)
        names = Names(name, namespace)
        secrets = Secrets(api, names, self._may_act)
        self._storage = SecretStorage(secrets, names, replica, self._superseded)
        self._stored = watched(api, names, self._storage)

        async def is_first() -> bool:
            """Whether the Secret of the state is absent: an active replica claims it before it does anything else."""
            return await secrets.get(names.state) is None

        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/admc-{name}"
        lease = LeaseHolder(api, path, replica, is_first=is_first)
        self._state_follower = StateFollower(self._storage, self._prepare)
        address = ActiveAddress(api, namespace, name, (installation.address, listening.xds[1]), self._may_act)
        self._standby = Standby(
            lease, keep_ready=self._state_follower.follow, keep_address=address.keep, end_streams=self._end_streams
        )
        self._programs = ClusterPrograms(self._cluster, installation.effort)
        self._addresses = ClusterAddresses(self._programs)
        self._warm = WarmStart()
        self._beside: set[asyncio.Task[None]] = set()
        """Tasks that run beside the server. An error in one of them ends the process."""
        self._authority: AuthorityKeeper | GivenAuthority
        if listening.tls is not None and installation.authority is not None:
            self._authority = GivenAuthority(listening.tls, installation.authority)
        else:
            services = f"admc-{name}.{namespace}.svc", f"admc-{name}-webhook.{namespace}.svc"
            self._authority = AuthorityKeeper(api, name, namespace, (host, *services), self._may_act)
        self._config = ProxyConfig(
            self._cluster, installation.reached_at, lambda: self._authority.bundle, ipv6=_has_ipv6()
        )
        self._webhook: ClusterWebhook | None = None
        if installation.webhook is not None:
            self._webhook = ClusterWebhook(self._cluster, injection, installation.webhook, self._authority)
        self._standing_by = StandingBy(
            self._cluster, self._standby, self._state_follower, self._authority, self._webhook
        )
        self._reached, self._limits = reached, installation.limits
        self._replica = replica
        self._environment: ClusterEnvironment | None = None

    def _may_act(self) -> bool:
        return self._standby.may_act()

    def _superseded(self, why: str) -> None:
        self._standby.superseded(why)

    async def run(self) -> int:
        listening = self._listening
        http = await ops.serve(self._standing_by.view(), *listening.ops, listening.ops_names)
        LOG.info("ops_listening", extra={"ops": ops.joined(*http.address)})
        try:
            return await self._run(http)
        finally:
            await http.stop()

    async def _run(self, http: HttpServer) -> int:
        works = [self._cluster.run(), self._keys.follow(), self._programs.run(), self._authority.run(self._is_shown)]
        if self._webhook is not None:
            works += [self._webhook.follow(), self._webhook.listen()]
        self._beside |= {asyncio.create_task(work) for work in works}
        serving = asyncio.create_task(self._standby.run(lambda: self._serve(http)))
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            # The server replaces these handlers by its own.
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        stop = asyncio.create_task(stopped.wait())
        try:
            while not serving.done():
                waits = {serving, *self._beside, *(() if self._environment else (stop,))}
                done, _ = await asyncio.wait(waits, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                if stop in done:
                    return Exit.DONE  # the replica stood by, and served nothing
                for task in done & self._beside:
                    task.result()
                self._beside -= done
            return serving.result()
        finally:
            tasks = {serving, stop, *self._beside}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=END_SECONDS)
            await self._warm.close()

    async def _serve(self, http: HttpServer) -> int:
        """Serve as the active replica."""
        await self._authority.until_usable()
        restoring = asyncio.create_task(self._restore(await self._state_follower.newest()))
        self._environment = ClusterEnvironment(
            self._cluster,
            self._programs,
            self._standby,
            self._storage,
            self._keys,
            self._config,
            self._reached,
            self._limits,
            self._replica,
            self._authority,
            self._webhook,
        )
        self._beside |= {restoring, asyncio.create_task(self._stored.run())}
        source = self._authority.material
        return await serve_within(self._environment, self._listening, source, http=http, warm=self._warm)

    def _is_shown(self, bundle: str) -> bool:
        """Whether all clients of this server have these authorities: the proxies, and the API server."""
        webhook = self._webhook
        return self._config.everywhere == bundle and (webhook is None or webhook.configuration.is_shown(bundle))

    async def _prepare(self, state: StoredState | None) -> None:
        """Build the state that this replica would need if it became active now. Raises `CommandError` and
        `WorkerError`."""
        await self._restore(state)
        await self._warm.prepare(state, await self._programs.current(), self._addresses)

    async def _restore(self, state: StoredState | None) -> None:
        """Begin with the plans of the newest stored state, and with the facts that its newest plan relies on."""
        position = None if state is None else state.position
        plans: list[Recipe] = []
        if position is not None:
            names = sorted(position.plans, key=lambda name: (name != position.rollout.newest, name))
            plans = [position.plans[name] for name in names]
        try:
            facts = FactState.restored(plans[0].inputs.get(FACTS) if plans else None, time.monotonic())
        except CommandError:
            facts = FactState({})  # the plan is not used either: its inputs fail their check
        await self._programs.restore(facts, plans)

    async def _end_streams(self) -> None:
        if self._environment is not None:
            await self._environment.end_streams()


def own_address() -> str:
    """Return the address of this pod; outside of a pod, the address by which the machine sends to other networks, or
    127.0.0.1 if there is none."""
    given = os.environ.get("POD_IP", "")
    if given:
        return str(ipaddress.ip_address(given))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _has_ipv6() -> bool:
    """Whether pods have IPv6 addresses: all pods have them if this one has one."""
    return any(":" in address and not ipaddress.ip_address(address).is_loopback for address in _pod_addresses())


def _pod_addresses() -> list[str]:
    return [address for address in os.environ.get("POD_IPS", "").split(",") if address]
