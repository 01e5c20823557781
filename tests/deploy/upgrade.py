"""From the installation of an earlier commit to the chart, while callers send requests.

Before the chart, a user made the Deployment and the certificate by hand. The certificate stays (`tls.existingSecret`),
and the pods keep the containers that the earlier `admc inject` gave them, until they are injected again.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from admc.kubernetes.inject.names import IMAGE
from tests.cluster.node import images
from tests.cluster.node.cluster import path_of
from tests.cluster.traffic.counted import Count, count
from tests.cluster.traffic.mesh import OPS, ROOT, SYSTEM, XDS, Mesh
from tests.deploy.chart import rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

EARLIER: Final = "143bb4c6"
"""The last commit without a chart."""
EARLIER_IMAGE: Final = "admc:earlier"
ENVOY_IMAGE: Final = "envoy:test"
RATE: Final = "20"
QUIET_SECONDS: Final = 3.0
MOVE_SECONDS: Final = 400.0
ONE: Final = ("1",)


class Stage(NamedTuple):
    what: str
    seconds: float
    count: Count


def checkout(folder: Path) -> bool:
    """The files of the earlier commit; False where this repository does not have it."""
    known = subprocess.run(["git", "cat-file", "-e", f"{EARLIER}^{{commit}}"], cwd=ROOT, capture_output=True)
    if known.returncode:
        return False
    packed = subprocess.run(["git", "archive", EARLIER, *images.PACKAGES, "deploy"], cwd=ROOT, capture_output=True)
    packed.check_returncode()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return True


class Upgrade:
    def __init__(self, mesh: Mesh, code: Path) -> None:
        """`code` is the checkout of the earlier commit."""
        self.mesh, self.code = mesh, code
        self.name = f"admc-{mesh.name}"

    def begin(self) -> None:
        mesh = self.mesh
        mesh.begin()
        mesh.node.load([images.server(EARLIER_IMAGE, code=self.code), images.server(IMAGE)])
        mesh.workload("cart", "callee.py", "8081", port=8081)
        mesh.workload("web", "caller.py", "cart", "8081", RATE, port=8080)

    def stage(self, what: str, done: Callable[[], object], *allowed: tuple[str, ...]) -> Stage:
        """Do something under traffic, and a little longer. `allowed`: what a request may have met."""
        began = time.monotonic()
        done()
        took = time.monotonic() - began
        time.sleep(QUIET_SECONDS)
        stage = Stage(what, took, count(self.mesh.sent(began, time.monotonic()), allowed))
        print(f"{what}: {took:.1f} s, {stage.count}", flush=True)
        return stage

    def run(self) -> list[Stage]:
        """The stages after the earlier installation is in force."""
        for name in ("cart", "web"):
            self.mesh.deploy(name)
            self.mesh.rolled_out(name)
        self.earlier()
        self.stage("the earlier installation", self.enforced, (), ONE)
        return [
            self.stage("the chart takes its place", self.upgraded, ONE),
            self.stage("its pods are restarted as they are", self.restarted, ONE),
            self.stage("its pods are injected again", self.injected_again, ONE),
            self.stage("the policy goes to the sender", self.moved, ONE),
            self.stage("both services scale", self.scaled, ONE),
        ]

    # ---- the stages ----

    def earlier(self) -> None:
        """As the guide of the earlier commit said."""
        node, mesh = self.mesh.node, self.mesh
        for file in ("crd.yaml", "roles.yaml"):
            node.apply(*yaml.safe_load_all((self.code / "deploy" / file).read_text(encoding="utf-8")))
        files = {"tls.crt": mesh.certificate, "tls.key": mesh.key, "ca.crt": mesh.authority}
        data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
        metadata = {"name": f"{self.name}-tls", "namespace": SYSTEM}
        node.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        labels = {"app": self.name}
        fields = {"POD_IP": "status.podIP", "POD_IPS": "status.podIPs"}
        container = {
            "name": "server",
            "image": EARLIER_IMAGE,
            "command": ["python", "-m", "admc", "serve", "--cluster", mesh.name, "--xds", f"0.0.0.0:{XDS}"],
            "args": [
                *("--ops", f"0.0.0.0:{OPS}", "--image", EARLIER_IMAGE, "--envoy-image", ENVOY_IMAGE),
                *("--tls-cert", "/tls/tls.crt", "--tls-key", "/tls/tls.key", "--tls-ca", "/tls/ca.crt"),
            ],
            "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": at}}} for name, at in fields.items()],
            "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
        }
        spec = {
            "serviceAccountName": "admc",
            "containers": [container],
            "volumes": [{"name": "tls", "secret": {"secretName": f"{self.name}-tls"}}],
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        node.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": self.name, "namespace": SYSTEM},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
            }
        )

    def enforced(self) -> None:
        mesh = self.mesh
        mesh.program("ingress", "1")
        mesh.until(lambda: mesh.condition("Accepted")[0] == "True", "the program accepted")
        self.inject(self.code, EARLIER_IMAGE)
        mesh.rolled_out("cart", "web")
        mesh.until_programmed()

    def upgraded(self) -> None:
        """The labels by which a Deployment finds its pods cannot change, so the earlier one is removed first."""
        node = self.mesh.node
        node.delete({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata})
        values = {
            "installation": self.mesh.name,
            "image": IMAGE,
            "envoyImage": ENVOY_IMAGE,
            "tls.existingSecret": f"{self.name}-tls",
        }
        text = rendered(*(word for name, value in values.items() for word in ("--set", f"{name}={value}")))
        for each in yaml.safe_load_all(text):
            if each:
                node.server.apply(path_of(each), each)
        self.mesh.until(lambda: self.available() == 2, "the replicas of the chart")
        self.mesh.until_programmed()

    def restarted(self) -> None:
        self.mesh.restart("cart", "web")
        self.mesh.rolled_out("cart", "web")
        self.mesh.until_programmed()

    def injected_again(self) -> None:
        self.inject(ROOT, IMAGE)
        self.mesh.rolled_out("cart", "web")
        self.mesh.until_programmed()

    def moved(self) -> None:
        self.mesh.program("egress", "1")
        self.mesh.until(self.mesh.has_new_plan, "the new plan")
        self.inject(ROOT, IMAGE)
        self.mesh.rolled_out("cart", "web")
        self.mesh.until_programmed(MOVE_SECONDS)

    def scaled(self) -> None:
        for name in ("cart", "web"):
            self.mesh.scale(name, 3)
            self.mesh.rolled_out(name)
        self.mesh.until_programmed()

    # ---- helpers ----

    @property
    def metadata(self) -> dict[str, Any]:
        return {"name": self.name, "namespace": SYSTEM}

    def available(self) -> int:
        status = self.mesh.node.get("Deployment", self.name, SYSTEM, "apps/v1")["status"]
        return int(status.get("availableReplicas", 0))

    def active(self) -> str:
        """The address of the active replica."""
        lease = self.mesh.node.get("Lease", self.name, SYSTEM, "coordination.k8s.io/v1")
        pod = lease["spec"]["holderIdentity"].rpartition("-")[0]
        address: str = self.mesh.node.get("Pod", pod, SYSTEM)["status"]["podIP"]
        return address

    def inject(self, code: Path, image: str) -> None:
        """`admc inject` of that checkout, and the result applied."""
        command: Sequence[str] = [sys.executable, "-m", "admc", "inject", "-f", "-"]
        options = ["--server", f"http://{self.active()}:{OPS}", "--image", image, "--envoy-image", ENVOY_IMAGE]
        text = yaml.safe_dump_all(self.mesh.manifests[name] for name in ("cart", "web"))
        with self.mesh.node.machine.network():
            done = subprocess.run(
                [*command, *options], input=text, capture_output=True, text=True, cwd=code, timeout=60
            )
        assert done.returncode == 0, done.stderr + done.stdout
        self.mesh.node.apply(*yaml.safe_load_all(done.stdout))
