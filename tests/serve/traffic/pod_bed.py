"""An application of pods under traffic, while a server moves policies and the cluster moves pods.

Every caller dials one pod from one pod, so that it is known whose proxies a request may meet: what one fails that is
killed is told from what others fail. Where redirection is loaded everywhere from the beginning, somebody says so
whenever the server asks; else tests do what a cluster's controller does.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from admc.files import write_whole
from admc.serve.build.source import Source, read
from admc.serve.rollout.publisher import SETTLE_SECONDS
from dsl import load_text
from emitters.envoy import Mode
from tests.serve.server_process import Served, served
from tests.serve.traffic.bed import SECONDS, WHOLE, XDS_PORT, has_begun
from tests.serve.traffic.judge import Outage, Timeline, Verdict, judge
from tests.serve.traffic.pods import DRAIN_SECONDS, Pods, relay
from tests.serve.traffic.programs import EGRESS, INGRESS, OUT, Ask, Variant
from tests.testbed.callers import Caller, go_round
from tests.testbed.mesh.mesh import Mesh
from tests.testbed.mesh.mesh import Mode as Between
from tests.testbed.mesh.source_ports import SourcePorts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

PORT = 8080
SENDERS, RECEIVERS = ("shop/0", "shop/1"), ("cart/0", "cart/1", "cart/2")
OPTIONS = ("policies.adm", "--endpoints", "endpoints.json", "--state", "kept")
BOTH = """\
policy left = set_request_header(name: "x-left", value: "1") on shop -> cart
policy door = set_request_header(name: "x-door", value: "1") on shop -> cart
pin left at egress
pin door at ingress
"""
"""Keeps an ADM at both sides. Without it connections pass a side untouched at times, and are cut when policies come."""
SPREAD = f"{BOTH}policy spread = load_balancing(policy: round_robin) on shop -> cart\n"
"""With it, senders' ADMs choose the receiver."""


FIRST = Variant()


def text(variant: Variant, more: str = BOTH) -> str:
    """Everything at one side, or at the other."""
    shut, said = variant.shut, variant.said is not None
    lines = [
        "app pods",
        f"service shop {{ http {PORT}  replicas {len(SENDERS)} }}",
        f"service cart {{ http {PORT}  replicas {len(RECEIVERS)} }}",
        "call shop -> cart",
        'policy closed = deny() on shop -> cart when header("x-out") == "1"',
        'policy shut = deny() on shop -> cart when path == "/shut"' if shut else "",
        f'policy once = add_request_header(name: "x-once", value: "{variant.once}") on shop -> cart',
        'policy wide = set_request_header(name: "x-wide", value: "1") on shop -> cart',
        f'policy said = add_response_header(name: "x-said", value: "{variant.said}") on shop -> cart' if said else "",
        *(f"pin {name} at {variant.cart}" for name in ("closed", "once", "wide")),
        f"pin shut at {variant.cart}" if shut else "",
        f"pin said at {variant.cart}" if said else "",
    ]
    return "\n".join([*filter(None, lines), more])


def asks() -> list[tuple[tuple[Ask, ...], bool]]:
    """What is asked from each pod of each, and whether on a connection that is kept."""

    def made(protocol: str, *paths: str) -> tuple[Ask, ...]:
        return (*(Ask("shop", "cart", protocol, path) for path in paths), Ask("shop", "cart", protocol, "/", OUT))

    return [(made("h2c", "/", "/shut"), True), (made("http", "/", "/"), True), (made("http", "/", "/shut"), False)]


class PodBed:
    """Use as a context: server, proxies of `pods` and callers run inside it, with the first variant in force."""

    def __init__(
        self,
        folder: Path,
        pods: tuple[str, ...],
        *,
        more: str = BOTH,
        first: Variant = FIRST,
        bare: Collection[str] = (),
        pause: float = 0.05,
    ) -> None:
        """`pods` are there from the beginning. `more`: policies that are in every program. `first` is in force from the
        beginning. `bare` pods have neither proxy nor redirection, so that somebody has to see to it when that is asked
        for; without any, redirection is loaded everywhere."""
        self.folder = folder
        self.timeline = Timeline(DRAIN_SECONDS)
        self.callers: list[Caller] = []
        self.variant = first
        self.bare = set(bare)
        self.known: set[str] = set(pods)
        """The pods that the endpoints file has."""
        self._unready: frozenset[str] = frozenset()
        self.servers = 0
        self._steps = 0
        self._more, self._pause = more, pause
        self._calling: dict[tuple[str, str], list[Caller]] = {}
        self._server: Served | None = None
        self._serving = ExitStack()
        self._done = threading.Event()
        self._stack = ExitStack()

    def __enter__(self) -> PodBed:
        with ExitStack() as stack:
            path = f"{self.folder}/xds.sock"
            self.write(self.variant)
            nothing_between = Mesh(load_text(self._text(self.variant)), None, Between.NONE, folder=self.folder / "mesh")
            self.mesh = stack.enter_context(nothing_between)
            self._source_ports = SourcePorts(self.mesh)
            stack.enter_context(relay(path, XDS_PORT))
            both = [self._text(Variant(cart=side)) for side in (EGRESS, INGRESS)]
            self.pods = Pods(self.mesh, self.folder, path, both[0])
            self.endpoints = self.pods.endpoints(self.known)
            stack.callback(self._serving.close)
            self.serve()
            for program, places in zip(both, (SENDERS, RECEIVERS), strict=True):
                self.pods.load_planned(program, *(pod for pod in places if pod not in self.bare))
            for pod in sorted(self.known - self.bare):
                self.pods.start(pod)
            for pod in sorted(self.known - self.bare):
                self.server.until(lambda it=pod: self.pods.ready(it), SECONDS)  # type: ignore[misc]
            self.settle()
            if not self.bare:
                self._keep_saying(stack)
            stack.callback(self._silence, *SENDERS, *RECEIVERS)
            for pod in sorted(self.known):
                self._call(pod)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _keep_saying(self, stack: ExitStack) -> None:
        saying = threading.Thread(target=self._confirm, daemon=True)
        saying.start()
        stack.callback(saying.join)
        stack.callback(self._done.set)

    def _confirm(self) -> None:
        while not self._done.wait(0.1):
            for service in self.pods.asked():
                self.pods.confirm(service)

    # ---- programs and servers ----

    def _text(self, variant: Variant) -> str:
        return text(variant, self._more)

    def write(self, variant: Variant) -> None:
        self.variant = variant
        if self._server is not None:
            self._steps = len(self._server.events("rollout_step"))
        self.timeline.wrote(variant)
        write_whole(self.folder / "policies.adm", self._text(variant).encode())

    @property
    def server(self) -> Served:
        assert self._server is not None
        return self._server

    def serve(self) -> None:
        self._server = self._serving.enter_context(served(self.folder, *OPTIONS, xds=f"127.0.0.1:{XDS_PORT}"))
        self.servers += 1
        self._steps = 0

    def kill_server(self) -> None:
        self.server.stop(signal.SIGKILL)
        self._serving.close()

    def phases(self) -> Iterator[str]:
        """The steps that this server has taken since it was given the program."""
        return (event["step"] for event in self.server.events("rollout_step")[self._steps :])

    def until_step(self, phase: str, seconds: float = SECONDS) -> None:
        """Wait until that step has been taken since the program was written; it need not be acknowledged."""
        self.server.until(lambda: phase in self.phases(), seconds)

    def settle(self) -> None:
        """Wait until program and addresses as they stand are in force at all proxies, and no other."""
        found = read(Source(self.folder / "policies.adm", Mode.REDIRECT), (self.endpoints,))
        assert found.state is not None, found.findings
        wanted = found.state.version
        try:
            self.server.until(lambda: self._holds(wanted), SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{wanted} is not in force: {self.server.status()}\n{error}") from error
        since = time.monotonic()
        go_round([caller for made in self._calling.values() for caller in made])
        self.timeline.in_force(since)

    def over(self) -> None:
        """Wait until nothing of any rollout is left."""
        self.settle()
        self.server.until(lambda: not self.server.status()["server"]["why"], SECONDS)
        self.settle()

    def until_acknowledged(self) -> None:
        """Wait until all proxies have what the server has for them, and their workers have taken it over."""
        self.server.until(self._in_sync, SECONDS)
        time.sleep(SETTLE_SECONDS)

    def _holds(self, wanted: str) -> bool:
        time.sleep(0.05)
        said = self.server.events()
        assert not any(event["event"] == "last_good_state_stays" for event in said), self.server.log.read_text()
        status = self.server.status()
        if not has_begun(status["server"], wanted):
            return False
        step = status["server"]["why"].partition("step `")[2].partition("`")[0]
        return (not step or step in WHOLE) and self._in_sync()

    def _in_sync(self) -> bool:
        nodes = {node["id"]: node["in_sync"] for row in self.server.status()["adms"] for node in row["nodes"]}
        return all(nodes.get(self.pods.nodes[pod]) for pod in self.known - self.bare)

    # ---- pods ----

    def _locate(self) -> None:
        """Tell the server which pods there are, and wait until everybody goes by it."""
        before = len(self.server.events("located"))
        self.endpoints = self.pods.endpoints(self.known, self._unready)
        self.server.until(lambda: len(self.server.events("located")) > before, SECONDS)
        self.until_acknowledged()

    def join(self, pod: str) -> None:
        """A pod comes: its proxy is ready before the pod is known, and all know it before it is called, or calls."""
        if pod not in self.bare:
            self.pods.start(pod)
            self.server.until(lambda: self.pods.ready(pod), SECONDS)
        self.known.add(pod)
        self._locate()
        self._call(pod)

    def leave(self, pod: str) -> None:
        """A pod goes: when nobody calls it any more it is forgotten, and ends when proxies have taken that over."""
        self._silence(pod)
        self.known.remove(pod)
        self._locate()
        if pod not in self.bare:
            self.pods.kill(pod)

    def unready(self, *pods: str) -> None:
        """These are not ready, and all others are: proxies have taken that over."""
        self._unready = frozenset(pods)
        self._locate()

    def equip(self, pod: str) -> None:
        """It gets a proxy while it runs; redirection is still to be loaded."""
        self.bare.remove(pod)
        self.pods.start(pod)
        self.server.until(lambda: self.pods.ready(pod), SECONDS)

    def restart(self, pod: str) -> None:
        """Its proxy is killed and comes back."""
        outage = Outage(frozenset((pod,)), time.monotonic(), float("inf"))
        self.timeline.outages.append(outage)
        self.pods.kill(pod)
        self.pods.start(pod, again=True)
        self.server.until(lambda: self.pods.ready(pod), SECONDS)
        self.timeline.outages[self.timeline.outages.index(outage)] = outage._replace(ended=time.monotonic())

    # ---- traffic ----

    def _call(self, pod: str) -> None:
        for source in sorted(self.known & set(SENDERS)):
            for destination in sorted(self.known & set(RECEIVERS)):
                ends = (source, destination)
                if pod in ends and ends not in self._calling:
                    made = [self._caller(source, destination, own, keep=keep) for own, keep in asks()]
                    self._calling[ends] = made
                    self.callers += made
                    for caller in made:
                        caller.__enter__()

    def _silence(self, *pods: str) -> None:
        ending = [ends for ends in self._calling if not set(ends).isdisjoint(pods)]
        for ends in ending:
            for caller in self._calling.pop(ends):
                caller.__exit__()

    def _caller(self, source: str, destination: str, own: tuple[Ask, ...], *, keep: bool) -> Caller:
        address = self.mesh.layout.by_name[destination].addresses[0]
        ends = (source, *RECEIVERS) if self._more == SPREAD else (source, destination)
        return Caller(
            lambda: self._source_ports.connect(source, address, PORT),
            own,
            keep=keep,
            pause=self._pause,
            ends=ends,
        )

    def refused(self) -> list[str]:
        return [line for pod in sorted(self.known - self.bare) for line in self.pods.refused(pod)]

    def verdict(self) -> Verdict:
        """How all requests fared; to be asked when the callers have stopped, and before the bed is gone."""
        made = [request for caller in self.callers for request in caller.made]
        return judge(self.timeline, made, [each.seen for each in self.mesh.arrivals()])

    def quiet(self) -> None:
        """End the callers."""
        self._silence(*SENDERS, *RECEIVERS)
