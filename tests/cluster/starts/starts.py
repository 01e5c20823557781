"""Starts of callers on a real node, with the wait of `admc inject` and without it, and what their requests met.

The receiver's ADM has a policy for each of two services of callers, and tells these apart by address. It adds a header
with the caller's service. So a request from an address that the ADM does not know has no header, and one from an
address that it takes for another service's has the header of that one. A policy that refuses unknown callers would
not show this: such a request would be refused, and none would arrive unenforced.

Pods of both services start and end in turns, and the node has few addresses: most starts get an address that a pod of
the other service had a moment ago.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.kubernetes.inject.names import WAIT_CONTAINER
from tests.cluster.api_server import ApiError
from tests.cluster.node import images

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.cluster.node.cluster import Object
    from tests.cluster.traffic.mesh import Mesh

BARE, PROXIED = "bare", "proxied"
"""Services of callers: without an ADM, and with one."""
CALLED: Final = "cart"
PROGRAM: Final = """\
app starts
service cart    { http 8081  namespace SPACE }
service bare    { http 8080  namespace SPACE }
service proxied { http 8080  namespace SPACE }
call bare, proxied -> cart
policy of_bare    = add_request_header(name: "x-met", value: "bare")    on bare -> cart
policy of_proxied = add_request_header(name: "x-met", value: "proxied") on proxied -> cart
policy patience   = timeout(after: 30s) on proxied -> cart
pin of_bare at ingress
pin of_proxied at ingress
"""
CALLED_PODS: Final = 2
SPARE_ADDRESSES: Final = 3
"""So many more addresses than pods: a pod that ends frees its own a little after the next one is made."""
REQUESTS: Final = 10
CALLER: Final = f"""\
turn=0
while [ $turn -lt {REQUESTS} ]; do
  read -r now idle < /proc/uptime
  answer=$(timeout 5 wget -q -O - "$1" 2>&1) || answer="failed $answer"
  echo $now $answer
  turn=$((turn + 1))
  usleep 100000
done
echo end
exec sleep 1000000
"""
"""The first thing that the container does is a request; it goes on for a second."""
LABEL: Final = "starts"
LOOK_SECONDS: Final = 0.25
REPORT_EACH: Final = 20
LONGEST_SECONDS: Final = 180.0
"""Until a start is given up."""


class Kind(NamedTuple):
    """What is started."""

    service: str
    waits: bool


KINDS: Final = tuple(Kind(service, waits) for waits in (True, False) for service in (BARE, PROXIED))


class Request(NamedTuple):
    at: float
    """Seconds since the machine started."""
    met: tuple[str, ...] | None
    """The services whose policies it met; None: it failed."""
    error: str


class Earlier(NamedTuple):
    """The pod that had the address before."""

    service: str
    ended: float


@dataclass
class Start:
    kind: Kind
    name: str
    began: float
    address: str = ""
    earlier: Earlier | None = None
    requests: tuple[Request, ...] = ()

    @property
    def unenforced(self) -> int:
        """How many requests did not meet the policy of their caller, and it alone."""
        return sum(each.met is not None and each.met != (self.kind.service,) for each in self.requests)

    @property
    def others(self) -> int:
        """How many of these met the policy of another service."""
        return sum(bool(each.met) and each.met != (self.kind.service,) for each in self.requests)

    @property
    def is_enforced(self) -> bool:
        """Whether the first request met its policy, and all that followed."""
        return bool(self.requests) and self.requests[0].met is not None and not self.unenforced

    @property
    def seconds(self) -> float:
        """From the moment when the pod is made to its first request."""
        return self.requests[0].at - self.began

    @property
    def has_anothers_address(self) -> bool:
        return self.earlier is not None and self.earlier.service != self.kind.service


@dataclass
class Starts:
    mesh: Mesh
    templates: dict[Kind, Object] = field(default_factory=dict)
    done: list[Start] = field(default_factory=list)
    _under_way: dict[str, Start] = field(default_factory=dict)
    """By the name of the pod."""
    _earlier: dict[str, Earlier] = field(default_factory=dict)
    """By address."""

    def begin(self) -> None:
        """A receiver with its ADM, the server, and the manifests of callers."""
        mesh = self.mesh
        mesh.begin()
        mesh.node.load([images.busybox()])
        mesh.workload(CALLED, "callee.py", "8081", port=8081)
        for service in (BARE, PROXIED):
            mesh.node.apply(_service(service, mesh.name))
        mesh.serve()
        mesh.write(PROGRAM.replace("SPACE", mesh.name))
        mesh.until(lambda: mesh.condition("Programmed")[1] not in ("", "NotAccepted"), "the plan of the program")
        mesh.inject(CALLED)
        mesh.rolled_out(CALLED)
        mesh.until_programmed()
        address = mesh.node.get("Service", CALLED, mesh.name)["spec"]["clusterIP"]
        made, _ = mesh.injected(*(_caller(each, mesh.name, f"http://{address}:8081/") for each in (BARE, PROXIED)))
        for service, pod in zip((BARE, PROXIED), made, strict=True):
            self.templates[Kind(service, True)] = pod
            self.templates[Kind(service, False)] = _without_wait(pod)

    def end(self) -> None:
        self.mesh.end()

    def run(self, kinds: Sequence[Kind], at_once: int, seconds: float = float("inf")) -> None:
        """Start pods of these kinds in this order, some at a time, and no more of them after some time."""
        left, until = list(reversed(kinds)), time.monotonic() + seconds
        while left or self._under_way:
            if time.monotonic() > until:
                left.clear()
            while left and len(self._under_way) < at_once:
                self._make(left.pop())
            time.sleep(LOOK_SECONDS)
            self._look()

    def _make(self, kind: Kind) -> None:
        name = f"{kind.service}-{len(self.done) + len(self._under_way)}-{time.monotonic_ns() % 10**6}"
        pod = copy.deepcopy(self.templates[kind])
        pod["metadata"]["name"] = name
        self._under_way[name] = Start(kind, name, time.clock_gettime(time.CLOCK_BOOTTIME))
        self.mesh.node.apply(pod)

    def _look(self) -> None:
        pods = {each["metadata"]["name"]: each for each in self.mesh.node.pods(self.mesh.name, LABEL)}
        for name, start in list(self._under_way.items()):
            pod = pods.get(name)
            if pod is None:
                # Its end: only now another pod takes its place.
                self._earlier[start.address] = Earlier(start.kind.service, time.monotonic())
                self.done.append(self._under_way.pop(name))
                if len(self.done) % REPORT_EACH == 0:
                    print(f"{len(self.done)} starts", flush=True)
            elif not start.requests:
                self._read(start, pod)
                assert time.clock_gettime(time.CLOCK_BOOTTIME) < start.began + LONGEST_SECONDS, self.mesh.node.summary()

    def _read(self, start: Start, pod: Object) -> None:
        """Note what a pod sent, and delete it, once it has sent everything."""
        status = pod["status"]
        if not start.address and status.get("podIP"):
            start.address = status["podIP"]
            start.earlier = self._earlier.get(start.address)
        if not any("running" in each["state"] for each in status.get("containerStatuses") or ()):
            return
        try:
            text = self.mesh.node.log(start.name, start.kind.service, self.mesh.name)
        except ApiError:
            return  # the container has just begun
        if text.endswith("end\n"):
            start.requests = tuple(_requests(text))
            self.mesh.node.delete({"apiVersion": "v1", "kind": "Pod", **pod})


def _requests(text: str) -> Iterator[Request]:
    for line in text.splitlines()[:-1]:
        at, _, answer = line.partition(" ")
        if answer.startswith("{"):
            yield Request(float(at), tuple(json.loads(answer)["met"]), "")
        else:
            yield Request(float(at), None, answer)


def _service(name: str, namespace: str) -> Object:
    spec = {"selector": {"app": name}, "ports": [{"port": 8080}]}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _caller(name: str, namespace: str, url: str) -> Object:
    context = {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    container = {
        "name": name,
        "image": "busybox:test",
        "command": ["sh", "-c", CALLER, "caller", url],
        "securityContext": context,
    }
    labels: Mapping[str, str] = {"app": name, LABEL: "caller"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def _without_wait(pod: Object) -> Object:
    found = copy.deepcopy(pod)
    before = found["spec"]["initContainers"]
    found["spec"]["initContainers"] = [each for each in before if each["name"] != WAIT_CONTAINER]
    assert len(found["spec"]["initContainers"]) == len(before) - 1
    return found
