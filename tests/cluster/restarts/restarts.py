"""Three receivers whose pods end in different ways, and what their callers see while the pods are replaced."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.cluster.restarts.callee import GRPC, HTTP1, HTTP2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.node.cluster import Object
    from tests.cluster.traffic.mesh import Mesh
    from tests.cluster.traffic.requests import Sent

RATE: Final = "5"
"""Requests a second of each connection."""
SLEEP_SECONDS: Final = 4
SLOW_SECONDS: Final = 12
GRACE_SECONDS: Final = 25
QUIET_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 600.0
"""Of a restart."""
CALLER: Final = "web"
FOLDERS: Final = ("tests/cluster/restarts", "tests/testbed")
SITE_PACKAGES: Final = (
    *("h2", "hpack", "hyperframe", "aiohttp", "aiosignal", "aiohappyeyeballs", "attr", "attrs", "frozenlist"),
    *("idna", "multidict", "propcache", "yarl"),
)
"""What callers and receivers import."""


class Ending(NamedTuple):
    """How the pods of a receiver end. Its process accepts nothing more from SIGTERM on."""

    what: str
    sleeps: bool
    """The process's container has a `preStop` sleep."""
    is_slow: bool
    """A second container uses its grace, so the pod and its ADM stay for a while without the process."""


ENDINGS: Final = {
    "sleeps": Ending("a preStop sleep", sleeps=True, is_slow=False),
    "lingers": Ending("the same, and a slow second container", sleeps=True, is_slow=True),
    "abrupt": Ending("a slow second container alone", sleeps=False, is_slow=True),
}
"""By the name of the receiver."""
PROGRAM: Final = (
    "app restarts\n"
    "service web { http 8080  namespace SPACE }\n"
    + "".join(
        f"service {name} {{ http one {HTTP1}  http two {HTTP2}  grpc rpc {GRPC}  namespace SPACE  replicas 2 }}\n"
        f"call web -> {name}:one, {name}:two, {name}:rpc\n"
        for name in ENDINGS
    )
    + f'policy met = add_request_header(name: "x-met", value: "1") on web -> {{{", ".join(ENDINGS)}}}\n'
    + "pin met at ingress\n"
)


class Row(NamedTuple):
    """What callers of one receiver saw."""

    requests: int
    unenforced: int
    failed: Counter[str]
    """By kind of connection and protocol."""
    errors: Counter[str]
    most_lost: int
    """Most replies that the process is gone on one connection."""
    kept_open: int
    """Answers after the hook that did not end their connection."""
    after_hook: int
    """Answers after the hook."""


@dataclass
class Restarts:
    mesh: Mesh
    phases: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When restarts began and ended, by name of the phase."""

    def begin(self) -> None:
        mesh = self.mesh
        mesh.begin()
        for name, ending in ENDINGS.items():
            mesh.workload(name, "callee.py", port=HTTP1)
            self._shape(name, ending)
        mesh.workload(CALLER, "caller.py", port=8080, replicas=1)
        command = ["python", "/admc/own/tests/cluster/restarts/caller.py", RATE, *ENDINGS]
        _containers(mesh.manifests[CALLER])[0]["command"] = command

    def _shape(self, name: str, ending: Ending) -> None:
        mesh = self.mesh
        manifest = mesh.manifests[name]
        (process,) = _containers(manifest)
        process["command"] = ["python", "/admc/own/tests/cluster/restarts/callee.py"]
        hook = process.pop("lifecycle")
        if ending.sleeps:
            hook["preStop"]["exec"]["command"][-1] = f"touch /tmp/going; sleep {SLEEP_SECONDS}"
            process["lifecycle"] = hook
        if ending.is_slow:
            script = f"trap 'sleep {SLOW_SECONDS}; exit 0' TERM; while true; do sleep 1 & wait; done"
            slow = {key: process[key] for key in ("image", "securityContext", "resources")}
            _containers(manifest).append({"name": "second", "command": ["/bin/sh", "-c", script], **slow})
        manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
        ports = [{"name": f"p{port}", "port": port} for port in (HTTP1, HTTP2, GRPC)]
        service = {"selector": {"app": name}, "ports": ports}
        metadata = {"name": name, "namespace": mesh.name}
        mesh.node.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})

    def without(self) -> None:
        """The receivers and their caller, without ADMs."""
        for name in (*ENDINGS, CALLER):
            self.mesh.deploy(name)
            self.mesh.rolled_out(name)

    def injected(self) -> None:
        """The program in force, with ADMs at the receivers."""
        self.mesh.write(PROGRAM.replace("SPACE", self.mesh.name))
        self.mesh.until(lambda: self.mesh.condition("Accepted")[0] == "True", "the program accepted")
        self.mesh.inject(*ENDINGS, CALLER)
        self.mesh.rolled_out(*ENDINGS, CALLER)
        self.mesh.until_programmed()

    def restart(self, phase: str, times: int) -> None:
        """Replace all pods of all receivers so often, each time until the last one of them is gone."""
        began = time.monotonic()
        self.phases[phase] = (began, began)
        for number in range(1, times + 1):
            self.mesh.restart(*ENDINGS)
            time.sleep(QUIET_SECONDS)
            self.mesh.rolled_out(*ENDINGS, seconds=LONGEST_SECONDS)
            time.sleep(QUIET_SECONDS)
            self.phases[phase] = (began, time.monotonic())
            print(f"{phase}: {number} of {times} restarts, {time.monotonic() - began:.0f} s", flush=True)

    def row(self, phase: str, receiver: str, *, enforced: bool) -> Row:
        began, ended = self.phases[phase]
        sent = [each for each in self.mesh.sent(began, ended) if each.line["service"] == receiver]
        return counted(sent, enforced=enforced)


def counted(sent: Sequence[Sent], *, enforced: bool) -> Row:
    failed = [request for request in sent if request.met is None]
    lost: Counter[tuple[str, int]] = Counter()
    hooked = [request for request in sent if request.line.get("going")]
    for request in failed:
        if "status" in request.line:
            lost[request.pod, request.line["connection"]] += 1
    return Row(
        requests=len(sent),
        unenforced=sum(enforced and request.met not in (("1",), None) for request in sent),
        failed=Counter(f"{request.kind} {request.line['protocol']}" for request in failed),
        errors=Counter(request.error for request in failed),
        most_lost=max(lost.values(), default=0),
        kept_open=sum(not request.line["last"] for request in hooked),
        after_hook=len(hooked),
    )


def _containers(manifest: Object) -> list[Object]:
    found: list[Object] = manifest["spec"]["template"]["spec"]["containers"]
    return found


HEAD: Final = (
    f"{'phase':<10} {'a pod has':<40} {'requests':>8} {'failed':>6} {'second':>6} {'after hook':>10} {'open':>5}"
)


def printed(phase: str, rows: dict[str, Row]) -> Sequence[str]:
    """`second`: most replies that the process is gone on one connection. `open`: answers after the hook that did not
    end their connection."""
    lines = []
    for name, row in rows.items():
        figures = (
            f"{row.requests:>8} {row.failed.total():>6} {row.most_lost:>6} {row.after_hook:>10} {row.kept_open:>5}"
        )
        lines.append(f"{phase:<10} {ENDINGS[name].what:<40} {figures}")
        lines += [f"    {number} failed, {kind}" for kind, number in sorted(row.failed.items())]
        lines += [f"    {number} failed: {error}" for error, number in row.errors.most_common(5)]
        lines += [f"    {row.unenforced} unenforced"] if row.unenforced else []
    return lines
