"""An application of pods under traffic, while a server moves policies, and pods start and end.

Each caller dials one pod from one pod. So the proxies that its requests may pass are known, and requests that fail at a
proxy that was killed can be distinguished from others. If redirection is loaded everywhere from the beginning, the bed
confirms it whenever the server requests it. Else tests load and confirm it, as a controller of a cluster does.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from admc.base.files import write_whole
from admc.serve.compiling.source import Source, read
from admc.serve.publication.publisher import SETTLE_SECONDS
from dsl import load_text
from emitters.envoy import Mode
from tests.serve.server_process import ADMC, Served, served
from tests.serve.traffic.bed import SECONDS, WHOLE, XDS_PORT, has_begun
from tests.serve.traffic.judge import Outage, Timeline, Verdict, judge
from tests.serve.traffic.pods import Pods, relay
from tests.serve.traffic.programs import EGRESS, INGRESS, OUT, Variant
from tests.testbed.callers import Caller, RequestSpec, wait_for_workers
from tests.testbed.draining import DRAIN_SECONDS
from tests.testbed.mesh.mesh import Mesh
from tests.testbed.mesh.mesh import Mode as Between
from tests.testbed.mesh.source_ports import SourcePorts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

PORT = 8080
SENDERS, RECEIVERS = ("shop/0", "shop/1"), ("cart/0", "cart/1", "cart/2")
DIAL_SECONDS = 10.0
OPTIONS = ("policies.adm", "--endpoints", "endpoints.json", "--state", "kept")
ADMS_AT_BOTH_ENDS = """\
policy left = set_request_header(name: "x-left", value: "1") on shop -> cart
policy door = set_request_header(name: "x-door", value: "1") on shop -> cart
pin left at egress
pin door at ingress
"""
"""With these policies there is always an ADM at both ends. Without them, connections pass an end without an ADM at
times, and are cut when policies move there."""
SPREAD = f"{ADMS_AT_BOTH_ENDS}policy spread = load_balancing(policy: round_robin) on shop -> cart\n"
"""With it, the ADMs of senders choose the receiver."""


FIRST = Variant()


def text(variant: Variant, extra: str = ADMS_AT_BOTH_ENDS) -> str:
    """The program of a variant, with the policies of `extra`."""
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
    return "\n".join([*filter(None, lines), extra])


def specs() -> list[tuple[tuple[RequestSpec, ...], bool]]:
    """The requests from each pod to each, and whether their connection is kept."""

    def made(protocol: str, *paths: str) -> tuple[RequestSpec, ...]:
        return (
            *(RequestSpec("shop", "cart", protocol, path) for path in paths),
            RequestSpec("shop", "cart", protocol, "/", OUT),
        )

    return [(made("h2c", "/", "/shut"), True), (made("http", "/", "/"), True), (made("http", "/", "/shut"), False)]


class PodBed:
    """Use as a context: server, proxies of `pods` and callers run inside it, with the first variant in force."""

    senders: tuple[str, ...] = SENDERS
    strangers: tuple[str, ...] = ()
    """Pods without a proxy that call the receivers, too, and that no program admits."""

    def __init__(
        self,
        folder: Path,
        pods: tuple[str, ...],
        *,
        extra: str = ADMS_AT_BOTH_ENDS,
        first: Variant = FIRST,
        without_proxy: Collection[str] = (),
        pause: float = 0.05,
        entry: tuple[str, ...] = ADMC,
    ) -> None:
        """`pods` run from the beginning, with `first` in force. All programs have the policies of `extra`. The pods of
        `without_proxy` have neither proxy nor redirection until a test gives them. If there are none, redirection is
        loaded everywhere. `entry` is what Python runs as the server."""
        self.folder = folder
        self.timeline = Timeline(DRAIN_SECONDS)
        self.callers: list[Caller] = []
        self.variant = first
        self.without_proxy = set(without_proxy)
        self.known: set[str] = set(pods)
        """The pods that the endpoints file has."""
        self._unready: frozenset[str] = frozenset()
        self.servers = 0
        self._steps = 0
        self._extra, self._pause, self._entry = extra, pause, entry
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
            both = [self._text(self.variant.at(side)) for side in (EGRESS, INGRESS)]
            self.pods = Pods(self.mesh, self.folder, path, both[0])
            self.endpoints = self.pods.endpoints(self.known.union(self.strangers))
            stack.callback(self._serving.close)
            self._begin()
            self.serve()
            for program, places in zip(both, (self.senders, RECEIVERS), strict=True):
                self.pods.load_planned(program, *(pod for pod in places if pod not in self.without_proxy))
            for pod in sorted(self.known - self.without_proxy):
                self.pods.start(pod)
            for pod in sorted(self.known - self.without_proxy):
                self.server.until(lambda it=pod: self.pods.ready(it), SECONDS)  # type: ignore[misc]
            self.wait_until_in_force()
            if not self.without_proxy:
                self._keep_confirming(stack)
            stack.callback(self.stop_callers)
            for pod in sorted(self.known):
                self._call(pod)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self) -> None:
        """Do what has to be done before the server starts."""

    def _keep_confirming(self, stack: ExitStack) -> None:
        saying = threading.Thread(target=self._confirm, daemon=True)
        saying.start()
        stack.callback(saying.join)
        stack.callback(self._done.set)

    def _confirm(self) -> None:
        while not self._done.wait(0.1):
            for service in self.pods.unconfirmed():
                self.pods.confirm(service)

    # ---- programs and servers ----

    def _text(self, variant: Variant) -> str:
        return text(variant, self._extra)

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
        log = self.folder / "serve.log"
        if log.exists():
            shutil.copy(log, self.folder / f"serve-{self.servers}.log")
        own = served(self.folder, *OPTIONS, xds=f"127.0.0.1:{XDS_PORT}", entry=self._entry)
        self._server = self._serving.enter_context(own)
        self.servers += 1
        self._steps = 0

    def kill_server(self) -> None:
        self.server.stop(signal.SIGKILL)
        self._serving.close()

    def steps(self) -> Iterator[str]:
        """The steps that this server has taken since the program was written."""
        return (event["step"] for event in self.server.events("rollout_step")[self._steps :])

    def until_step(self, step: str, seconds: float = SECONDS) -> None:
        """Wait until the server has published a step since the program was written. Proxies need not have it."""
        self.server.until(lambda: step in self.steps(), seconds)

    def until_accepted(self) -> None:
        """Wait until the server has read the present program."""
        wanted = self._wanted()
        self.server.until(lambda: self.server.status()["server"]["state"] == wanted, SECONDS)

    def _wanted(self) -> str:
        found = read(Source(self.folder / "policies.adm", Mode.REDIRECT), (self.endpoints,))
        assert found.state is not None, found.findings
        return found.state.version

    def wait_until_in_force(self) -> None:
        """Wait until all proxies enforce the present program at the present addresses, and no other."""
        wanted = self._wanted()
        try:
            self.server.until(lambda: self._holds(wanted), SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{wanted} is not in force: {self.server.status()}\n{error}") from error
        since = time.monotonic()
        waited = (made for ends, made in self._calling.items() if self._waits_for(ends[0]))
        wait_for_workers([caller for made in waited for caller in made])
        self.timeline.in_force(since)

    def _waits_for(self, source: str) -> bool:
        """Whether requests from a pod show that workers have taken a program over."""
        return source not in self.strangers

    def wait_until_at_rest(self) -> None:
        """Wait until no rollout is under way."""
        self.wait_until_in_force()
        self.server.until(lambda: not self.server.status()["server"]["why"], SECONDS)
        self.wait_until_in_force()

    def until_acknowledged(self) -> None:
        """Wait until all proxies have acknowledged what is published, and their workers have taken it over."""
        self.server.until(self._in_sync, SECONDS)
        time.sleep(SETTLE_SECONDS)

    def _holds(self, wanted: str) -> bool:
        time.sleep(0.05)
        assert not self.server.events("last_good_state_stays"), self.server.log.read_text()
        status = self.server.status()
        if not has_begun(status["server"], wanted):
            return False
        step = status["server"]["why"].partition("step `")[2].partition("`")[0]
        return (not step or step in WHOLE) and self._in_sync()

    def _in_sync(self) -> bool:
        nodes = {node["id"]: node["in_sync"] for row in self.server.status()["adms"] for node in row["nodes"]}
        return all(nodes.get(self.pods.nodes[pod]) for pod in self.known - self.without_proxy)

    # ---- pods ----

    def _publish_pods(self) -> None:
        """Write the endpoints file, and wait until all proxies have these addresses."""
        before = len(self.server.events("located"))
        self.endpoints = self.pods.endpoints(self.known.union(self.strangers), self._unready)
        self.server.until(lambda: len(self.server.events("located")) > before, SECONDS)
        self.until_acknowledged()

    def join(self, pod: str) -> None:
        """A pod starts. Its proxy is ready before the endpoints file has the pod. Its callers begin when all proxies
        have its address."""
        if pod not in self.without_proxy:
            self.pods.start(pod)
            self.server.until(lambda: self.pods.ready(pod), SECONDS)
        self.known.add(pod)
        self._publish_pods()
        self._call(pod)

    def leave(self, pod: str) -> None:
        """A pod ends. First its callers stop, then the endpoints file drops it. Its proxy ends when no other proxy has
        its address."""
        self._stop_callers_of(pod)
        self.known.remove(pod)
        self._publish_pods()
        if pod not in self.without_proxy:
            self.pods.kill(pod)

    def unready(self, *pods: str) -> None:
        """These pods are not ready, and all others are. Wait until all proxies have that."""
        self._unready = frozenset(pods)
        self._publish_pods()

    def add_proxy(self, pod: str) -> None:
        """A running pod gets a proxy. Its redirection is loaded later."""
        self.without_proxy.remove(pod)
        self.pods.start(pod)
        self.server.until(lambda: self.pods.ready(pod), SECONDS)

    def restart(self, pod: str) -> None:
        """Kill the proxy of a pod, and start it again."""
        outage = Outage(frozenset((pod,)), time.monotonic(), float("inf"))
        self.timeline.outages.append(outage)
        self.pods.kill(pod)
        self.pods.start(pod, again=True)
        self.server.until(lambda: self.pods.ready(pod), SECONDS)
        self.timeline.outages[self.timeline.outages.index(outage)] = outage._replace(ended=time.monotonic())

    # ---- traffic ----

    def _call(self, pod: str) -> None:
        for source in sorted(self.known.intersection(self.senders).union(self.strangers)):
            for destination in sorted(self.known & set(RECEIVERS)):
                ends = (source, destination)
                if pod in ends and ends not in self._calling:
                    made = self._made(source, destination)
                    self._calling[ends] = made
                    self.callers += made
                    for caller in made:
                        caller.__enter__()

    def _stop_callers_of(self, *pods: str) -> None:
        ending = [ends for ends in self._calling if not set(ends).isdisjoint(pods)]
        for ends in ending:
            for caller in self._calling.pop(ends):
                caller.__exit__()

    def _made(self, source: str, destination: str) -> list[Caller]:
        """The callers from one pod to another."""
        return [self._caller(source, destination, own, keep=keep) for own, keep in specs()]

    def _caller(
        self,
        source: str,
        destination: str,
        own: tuple[RequestSpec, ...],
        *,
        keep: bool,
        pause: float | None = None,
        timeout: float = DIAL_SECONDS,
    ) -> Caller:
        address = self.mesh.layout.by_name[destination].addresses[0]
        ends = (source, *RECEIVERS) if self._extra == SPREAD else (source, destination)
        return Caller(
            lambda: self._source_ports.connect(source, address, PORT, timeout),
            own,
            keep=keep,
            pause=self._pause if pause is None else pause,
            ends=ends,
        )

    def update_rejections(self) -> list[str]:
        return [line for pod in sorted(self.known - self.without_proxy) for line in self.pods.update_rejections(pod)]

    def verdict(self) -> Verdict:
        """The results of all requests. The callers must have stopped, and the bed must still run."""
        made = [request for caller in self.callers for request in caller.made]
        return judge(self.timeline, made, [each.seen for each in self.mesh.arrivals()])

    def stop_callers(self) -> None:
        """Stop all callers."""
        self._stop_callers_of(*RECEIVERS)
