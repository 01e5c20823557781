"""An installation on a real node: a program, its pods with their ADMs, the server, and the requests of the callers."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.api_server import ApiError
from tests.cluster.node import images
from tests.cluster.node.machine import ADDRESS
from tests.cluster.traffic.requests import Requests
from tests.deploy.chart import definitions
from tests.serve.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.cluster.node.cluster import Node, Object
    from tests.cluster.process import Running
    from tests.cluster.traffic.requests import Sent

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
XDS, OPS = 18000, 18001
SYSTEM = "admc-system"
UNREACHABLE = (ApiError, OSError, http.client.HTTPException)
"""What a request of the test raises while the API server is away."""
SECONDS = 240.0
PROGRAM = """\
app life
service web  { http 8080  namespace SPACE  replicas 2 }
service cart { http 8081  namespace SPACE  replicas 2 }
call web -> cart { rate 100/s }
policy met = add_request_header(name: "x-met", value: "VALUE") on web -> cart
pin met at SIDE
"""


@dataclass
class Mesh:
    node: Node
    folder: Path
    name: str = "life"
    server: Running | None = None
    manifests: dict[str, Object] = field(default_factory=dict)
    command: tuple[str, ...] = ("admc",)
    """The module that is run as `admc`, and its first words."""
    callers: str = "web"
    """The service whose requests count."""
    root: Path = ROOT
    """The checkout whose server and `admc inject` run."""
    image: str = "admc:test"
    """Of the init containers that these write."""
    folders: tuple[str, ...] = ()
    """What pods run, beside this folder."""
    site_packages: tuple[str, ...] = ()
    """What that needs, beside what `admc.pod` needs."""

    def begin(self) -> None:
        """Namespaces, the definition of `Program`, images, the Service of the server."""
        node = self.node
        node.machine.favour_pods()
        folders = ("tests/cluster/traffic", *self.folders)
        node.load([images.python(site_packages=self.site_packages, folders=folders), images.envoy()])
        node.apply(*definitions())
        node.namespace(SYSTEM)
        node.namespace(self.name, {"admc.dev/controller": self.name})
        authority = Authority("life", 86400.0)
        pair = authority.issue(dns=(self.host,), seconds=86400.0)
        self.certificate, self.key = pair.write(self.folder, "server")
        self.authority = self.folder / "ca.crt"
        self.authority.write_bytes(authority.certificate)
        metadata = {"name": f"admc-{self.name}", "namespace": SYSTEM}
        ports = [{"name": "xds", "port": XDS}]
        node.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})
        self.requests = Requests(node.machine.folder / "log", self.name, self.callers)

    def end(self) -> None:
        self.requests.close()

    def remove(self) -> None:
        """End the server, and delete the program and all pods."""
        if self.server is not None:
            self.server.kill()
            self.server = None
        self.node.server.request("DELETE", "/apis/admc.dev/v1alpha1/programs/life")
        self.node.server.request("DELETE", f"/api/v1/namespaces/{self.name}")
        self.until(lambda: not self.node.pods(self.name), "the end of the pods")

    @property
    def _python(self) -> list[str]:
        """Runs a module of `root`, wherever the test itself was started."""
        return [sys.executable, "-P", "-m"]

    @property
    def _modules(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.root)}

    @property
    def host(self) -> str:
        """The name by which pods find the active server."""
        return f"admc-{self.name}.{SYSTEM}.svc"

    # ---- the server ----

    def serve(
        self,
        name: str = "admc",
        *,
        xds: int = XDS,
        ops: int = OPS,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Running:
        command = [*self._python, *self.command, "serve", "--cluster", self.name, "--namespace", SYSTEM]
        command += ["--kubeconfig", str(kubeconfig or self.node.inside)]
        command += ["--xds", f"{ADDRESS}:{xds}", "--ops", f"{ADDRESS}:{ops}"]
        command += ["--tls-cert", str(self.certificate), "--tls-key", str(self.key), "--tls-ca", str(self.authority)]
        command += ["--reached-at", f"{self.host}:{XDS}", "--image", self.image, "--envoy-image", "envoy:test"]
        settings = {**self._modules, "POD_IP": ADDRESS, **(environment or {})}
        started = self.node.start(name, [*command, "--log", "json"], settings)
        self.server = self.server or started
        return started

    def events(self, server: Running, name: str) -> list[Mapping[str, Any]]:
        lines = server.log.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [each for each in found if each["event"] == name]

    # ---- objects ----

    def program(self, side: str, value: str, *, more: str = "", name: str = "life") -> None:
        text = PROGRAM.replace("SPACE", self.name).replace("SIDE", side).replace("VALUE", value) + more
        self.write(text, name)

    def write(self, text: str, name: str = "life") -> None:
        """Apply the `Program` with this text."""
        body = {
            "apiVersion": "admc.dev/v1alpha1",
            "kind": "Program",
            "metadata": {"name": name},
            "spec": {"controller": self.name, "files": {"policies.adm": text}},
        }
        self.node.server.apply(f"/apis/admc.dev/v1alpha1/programs/{name}", body)

    def status(self, name: str = "life") -> Mapping[str, Any]:
        found = self.node.server.request("GET", f"/apis/admc.dev/v1alpha1/programs/{name}")
        status: Mapping[str, Any] = found.get("status") or {}
        return status

    def condition(self, kind: str) -> tuple[str, str, str]:
        for each in self.status().get("conditions") or ():
            if each["type"] == kind:
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    def until(self, condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
        """What needs the API server is not true while that is away."""

        def is_true() -> object:
            try:
                return condition()
            except UNREACHABLE:
                return False

        try:
            self.node.wait_for(is_true, what, seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{json.dumps(self.status(), indent=1)}") from error

    def has_new_plan(self) -> bool:
        """The server has the newest program, and goes to its plan."""
        found = self.node.server.request("GET", "/apis/admc.dev/v1alpha1/programs/life")
        generation = found["metadata"]["generation"]
        return (
            self.status().get("observedGeneration") == generation and self.condition("Programmed")[1] != "NotAccepted"
        )

    def until_programmed(self, seconds: float = SECONDS) -> float:
        """Until the plan of the newest program is in force everywhere; returns how long that took."""
        began = time.monotonic()

        def is_programmed() -> bool:
            found = self.node.server.request("GET", "/apis/admc.dev/v1alpha1/programs/life")
            generation, status = found["metadata"]["generation"], found.get("status") or {}
            conditions = {each["type"]: each for each in status.get("conditions") or ()}
            return status.get("observedGeneration") == generation and conditions["Programmed"]["status"] == "True"

        self.until(is_programmed, "the program in force", seconds)
        return time.monotonic() - began

    def workload(self, name: str, script: str, *arguments: str, port: int, replicas: int = 2) -> None:
        """A Deployment and its Service, not injected yet."""
        context = {
            "runAsUser": 1000,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        container = {
            "name": name,
            "image": "admc:test",
            "command": ["python", f"/admc/own/tests/cluster/traffic/{script}", *arguments],
            "securityContext": context,
            # Without a request, a container has next to no share of a machine that does other work.
            "resources": {"requests": {"cpu": "50m"}},
            "startupProbe": {
                "exec": {"command": ["/bin/sh", "-c", "test -f /tmp/started"]},
                "periodSeconds": 1,
                "timeoutSeconds": 10,
                "failureThreshold": 600,
            },
            # Callers learn within a second or two that a pod goes; until then it answers, and closes connections.
            "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "touch /tmp/going; sleep 5"]}}},
        }
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 8},
        }
        metadata = {"name": name, "namespace": self.name}
        self.manifests[name] = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                "template": template,
            },
        }
        service = {"selector": {"app": name}, "ports": [{"port": port}]}
        self.node.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})

    def inject(self, *names: str) -> str:
        """`admc inject` with what the server has written, and the result applied; returns what it printed beside."""
        found, printed = self.injected(*(self.manifests[name] for name in names))
        self.node.apply(*found)
        return printed

    def injected(self, *manifests: Object) -> tuple[list[Object], str]:
        """The result of `admc inject` with what the server has written, and what it printed beside."""
        text = yaml.safe_dump_all(manifests)
        source = [self.name, "--kubeconfig", str(self.node.inside)]
        if self.root != ROOT:  # a release that had no `Injection` objects, and asked the server
            source = ["--server", f"http://{ADDRESS}:{OPS}"]
        command = [*self._python, *self.command, "inject", *source, "-f", "-"]
        command += ["--image", self.image, "--envoy-image", "envoy:test"]
        with self.node.machine.network():
            settings = {**os.environ, **self._modules}
            done = subprocess.run(command, input=text, capture_output=True, text=True, env=settings, timeout=60)
        assert done.returncode == 0, done.stderr + done.stdout
        return list(yaml.safe_load_all(done.stdout)), done.stderr

    def deploy(self, *names: str) -> None:
        """As they are, without injection."""
        self.node.apply(*(self.manifests[name] for name in names))

    def scale(self, name: str, replicas: int) -> None:
        self.manifests[name]["spec"]["replicas"] = replicas
        path = f"/apis/apps/v1/namespaces/{self.name}/deployments/{name}"
        self.node.server.request("PATCH", path, {"spec": {"replicas": replicas}}, "application/merge-patch+json")

    def restart(self, *names: str) -> None:
        """Replace all pods, one after the other, as `kubectl rollout restart` does."""
        for name in names:
            path = f"/apis/apps/v1/namespaces/{self.name}/deployments/{name}"
            changed = {"metadata": {"annotations": {"restarted": f"{time.monotonic()}"}}}
            self.node.server.request("PATCH", path, {"spec": {"template": changed}}, "application/merge-patch+json")

    def is_rolled_out(self, name: str) -> bool:
        found = self.node.get("Deployment", name, self.name, "apps/v1")
        status, wanted = found["status"], found["spec"]["replicas"]
        return (
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and len(self.node.pods(self.name, f"app={name}")) == wanted
        )

    def rolled_out(self, *names: str, seconds: float = SECONDS) -> None:
        for name in names:
            self.until(lambda name=name: self.is_rolled_out(name), f"the pods of {name}", seconds)  # type: ignore[misc]

    # ---- traffic ----

    def sent(self, since: float = 0.0, until: float = float("inf")) -> list[Sent]:
        return self.requests.between(since, until)
