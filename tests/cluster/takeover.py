"""How long a takeover takes: from the end of the active replica until the next one answers its first stream.

    python -m tests.cluster.takeover [--services 2000] [--times 3] [--end KILL|TERM]

A real etcd, API server and kwok, `admc serve --cluster` as processes, a generated program, one pod for each service; no
node. Each time a replica stands by until it has nothing left to do, then the active one is ended, and a client with the
token of a pod asks the other one again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from emitters.kubernetes import kubernetes_name
from tests.cluster import many
from tests.cluster.api_server import api_server
from tests.cluster.many import many_pods
from tests.cluster.serve.installation import Installation, installation
from tests.generate import Application, application, generate
from tests.serve.test_identity_streams import bearing
from tests.testbed.ports import free_port
from tests.xds_server.client import Client
from xds_server.resources.types import CLUSTER

if TYPE_CHECKING:
    from tests.serve.server_process import Served

SEED = 1
CALLS, POLICIES = 3, 0.2
"""For each service."""
START_SECONDS = 300.0
IDLE_SHARE = 0.1
IDLE_SECONDS = 4.0
"""A replica that used less than this share of a core for so long has nothing left to do."""
ATTEMPT_SECONDS = 2.0
PAUSE_SECONDS = 0.02
PORTS = {"http": 8080, "grpc": 9090, "tcp": 5432}
"""As in `tests.generate`."""
TICKS = os.sysconf("SC_CLK_TCK")


class Takeover(NamedTuple):
    """Seconds of its parts, one after the other."""

    lease: float
    start: float
    storage: float
    plans: float
    publish: float
    answer: float

    @property
    def total(self) -> float:
        return sum(self)


class Mesh:
    """The objects of the program in the cluster, and its replicas."""

    def __init__(self, shop: Installation, services: int) -> None:
        self._shop = shop
        self._app = application(services, CALLS * services, SEED)
        self._text = generate(services, CALLS * services, int(POLICIES * services), SEED)

    def make(self, pods: many.ManyPods) -> None:
        names, namespace = [kubernetes_name(name) for name in self._app.names], self._shop.namespace
        path = f"/api/v1/namespaces/{namespace}"
        pods.create(f"{path}/services", map(_service, names, self._app.protocols))
        pods.create(f"{path}/pods", (_pod(name, namespace, number) for number, name in enumerate(names)))
        pods.wait(namespace, len(names), START_SECONDS)
        self._shop.program(_in_namespace(self._text, self._app, namespace))

    def wait_for_plan(self, active: Served) -> str:
        """Until the program is in force; returns a service with an ADM."""
        active.until(lambda: active.events("compiled"), START_SECONDS)
        self._shop.until(lambda: self._shop.condition("Programmed")[1] not in ("", "NotAccepted"), START_SECONDS)
        self._shop.until(self._is_stored, START_SECONDS)
        return str(next(adm["service"] for adm in active.status()["adms"] if adm["in_plan"]))

    def _is_stored(self) -> bool:
        path = f"/api/v1/namespaces/{self._shop.system}/secrets/admc-{self._shop.name}-state"
        return bool(self._shop.api.request("GET", path).get("data"))


def _service(name: str, protocol: str) -> dict[str, Any]:
    spec = {"selector": {"app": name}, "ports": [{"port": PORTS[protocol]}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _pod(name: str, namespace: str, number: int) -> dict[str, Any]:
    context = {"runAsUser": 1000, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    own = {
        "serviceAccountName": "default",
        "containers": [{"name": "app", "image": "none", "securityContext": context}],
    }
    return many.pod(f"{name}-0", namespace, number, {"app": name}, own)


def _in_namespace(text: str, app: Application, namespace: str) -> str:
    for name in app.names:
        text = text.replace(f"service {name} {{", f"service {name} {{ namespace {namespace} ")
    return text


# ---- one takeover ----


async def taken_over(shop: Installation, active: Served, standby: Served, service: str, number: signal.Signals) -> Any:
    pod = f"{kubernetes_name(service)}-0"
    token = shop.token(pod)
    ended = time.time()
    active.process.send_signal(number)
    first = await _first_answer(shop, standby, service, pod, token)
    (began,) = (_when(event) for event in standby.events("active"))
    (recalled,) = standby.events("recalled")
    restoring = _when(recalled) - recalled["seconds"]
    read, built = recalled["read"], recalled["built"]
    publish = recalled["seconds"] - read - built
    return Takeover(began - ended, restoring - began, read, built, publish, first - _when(recalled))


async def _first_answer(shop: Installation, standby: Served, service: str, pod: str, token: str) -> float:
    credentials = grpc.ssl_channel_credentials(shop.authority.certificate)
    port = int(standby.xds.rpartition(":")[2])
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        async with Client(port, "delta", service, id=pod, credentials=credentials, metadata=bearing(token)) as client:
            try:
                await client.send(CLUSTER)
                if await client.read(ATTEMPT_SECONDS) is not grpc.aio.EOF:
                    return time.time()
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
                pass
        await asyncio.sleep(PAUSE_SECONDS)
    raise TimeoutError("no stream was answered")


def _when(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


# ---- processes ----


def processes(root: int) -> list[int]:
    """A process and its children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        if parent == root:
            found.append(int(stat.parent.name))
    return [root, *found]


def cpu_seconds(root: int) -> float:
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in processes(root)]
    return sum(int(value) for each in fields for value in each[11:15]) / TICKS


def memory(root: int) -> list[float]:
    """Resident MB of each process, the largest first."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in processes(root)]
    return sorted((each * os.sysconf("SC_PAGE_SIZE") / 1e6 for each in pages), reverse=True)


def until_idle(served: Served) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        before = cpu_seconds(served.process.pid)
        time.sleep(IDLE_SECONDS)
        if cpu_seconds(served.process.pid) - before < IDLE_SHARE * IDLE_SECONDS:
            return
    raise TimeoutError("the replica does not come to rest")


# ---- the command ----


def measured(services: int, times: int, number: signal.Signals) -> list[Takeover]:
    found: list[Takeover] = []
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admc-takeover-")))
        server = stack.enter_context(api_server())
        pods = stack.enter_context(many_pods(server))
        shop = installation(server, folder)
        mesh = Mesh(shop, services)
        active = stack.enter_context(shop.server(port=free_port()))
        mesh.make(pods)
        service = mesh.wait_for_plan(active)
        for _ in range(times):
            port = free_port()
            standby = stack.enter_context(shop.server(port=port, stands_by=True))
            standby.xds = f"127.0.0.1:{port}"
            standby.until(lambda standby=standby: standby.events("kept_state_ready"), START_SECONDS)
            until_idle(standby)
            until_idle(active)
            sizes = " + ".join(f"{each:.0f}" for each in memory(standby.process.pid))
            used = cpu_seconds(standby.process.pid)
            one = runner.run(taken_over(shop, active, standby, service, number))
            found.append(one)
            used = cpu_seconds(standby.process.pid) - used
            print(f"{_row(one)}   the standby had {sizes} MB, and used {used:.1f} s of CPU", flush=True)
            standby.listens()
            active.process.wait(START_SECONDS)
            active = standby
    return found


def _row(one: tuple[float, ...]) -> str:
    return "  ".join(f"{each:8.2f}" for each in (*one, sum(one)))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.takeover")
    parser.add_argument("--services", type=int, default=2000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--end", choices=("KILL", "TERM"), default="KILL", help="the signal to the active replica")
    given = parser.parse_args(arguments)
    print(f"seconds, SIG{given.end}, {given.services} services, seed {SEED}")
    print("  ".join(f"{name:>8}" for name in (*Takeover._fields, "total")), flush=True)
    found = measured(given.services, given.times, signal.Signals[f"SIG{given.end}"])
    print(f"{_row(tuple(map(statistics.median, zip(*found, strict=True))))}   (medians; the total is their sum)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
