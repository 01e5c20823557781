"""An installation for tests: a namespace that takes part, its pods, and `admc serve --cluster` as a process."""

from __future__ import annotations

import base64
import contextlib
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.names import PROGRAMS
from admc.kubernetes.cluster.program.owner import KIND
from admc.kubernetes.inject.model import Installation as Injection
from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from tests.deploy.chart import definitions
from tests.serve.pki import Authority
from tests.serve.server_process import Served, of, served
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.cluster.api_server import ApiServer

SECONDS = 60.0
PROGRAM = """\
app shop
service web  { http 8080  namespace NAMESPACE }
service cart { http 8081  namespace NAMESPACE }
call web -> cart { rate 10/s }
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin p at SIDE
"""


@dataclass
class Installation:
    api: ApiServer
    name: str
    namespace: str
    folder: Path
    port: int
    authority: Authority
    kubeconfig: Path | None = None
    """Of the server; None: the administrator's."""

    @property
    def system(self) -> str:
        """The namespace of the server, which takes no part."""
        return f"{self.name}-system"

    @property
    def reach(self) -> str:
        return f"localhost:{self.port}"

    @property
    def injection(self) -> Injection:
        return Injection(self.name, self.reach, "admc:test", "envoy:test")

    @contextlib.contextmanager
    def server(
        self,
        *options: str,
        port: int | None = None,
        stands_by: bool = False,
        own_authority: bool = False,
        checkout: Path | None = None,
    ) -> Iterator[Served]:
        """`own_authority`: the server makes its certificate itself. `checkout`: a working copy of another
        release, whose server it is."""
        own = self.folder / secrets.token_hex(4)
        own.mkdir()
        kubeconfig = self.kubeconfig or self.api.kubeconfig
        arguments = ["--cluster", self.name, "--namespace", self.system, "--kubeconfig", str(kubeconfig)]
        if not own_authority:
            certificate, key = self.authority.issue(dns=("localhost",)).write(own, "server")
            (own / "ca.crt").write_bytes(self.authority.certificate)
            arguments += ["--tls-cert", str(certificate), "--tls-key", str(key), "--tls-ca", str(own / "ca.crt")]
        arguments += ["--reached-at", self.reach, "--image", "admc:test", "--envoy-image", "envoy:test", *options]
        xds = f"127.0.0.1:{self.port if port is None else port}"
        with served(own, *arguments, xds=xds, plaintext=False, stands_by=stands_by, before=of(checkout)) as it:
            yield it

    # ---- objects ----

    def service(self, name: str, port: int, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {"selector": {"app": name}, "ports": [{"port": port}], **spec},
        }
        self.api.apply(f"/api/v1/namespaces/{self.namespace}/services/{name}", body)

    def pod(
        self,
        name: str,
        service: str,
        address: str,
        captures: PodCaptures | None = None,
        *,
        redirected: bool = True,
        waits: bool = False,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """A pod as the kubelet would show it once it runs; there is no kubelet."""
        context = {"runAsUser": 1000, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
        template = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": service, **(labels or {})}},
            "spec": {
                "serviceAccountName": "default",
                "containers": [{"name": "app", "image": "none", "securityContext": context}],
                **spec,
            },
        }
        if captures is not None:
            made = injected(template, PodNeeds(f"shop/{service}", captures, waits=waits), self.injection)
            assert made.template is not None, made.findings
            template = dict(made.template)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.api.apply(path, template)
        ended = [{"name": "admc-rules", "image": "", "imageID": "", "ready": True, "restartCount": 0}]
        ended[0]["state"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}  # type: ignore[assignment]
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": ended if captures is not None and redirected else [],
        }
        found: dict[str, Any] = self.api.request(
            "PATCH", f"{path}/status", {"status": status}, "application/merge-patch+json"
        )
        return found

    def remove_pod(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.api.request("DELETE", f"{path}?gracePeriodSeconds=0")

    def program(self, text: str, name: str | None = None, **spec: Any) -> None:
        self.program_of({"files": {"policies.adm": text}, **spec}, name)

    def program_of(self, spec: Mapping[str, Any], name: str | None = None) -> None:
        """`NAMESPACE` in files stands for the installation's."""
        name = name or self.name
        if "files" in spec:
            files = {path: text.replace("NAMESPACE", self.namespace) for path, text in spec["files"].items()}
            spec = {**spec, "files": files}
        body = {
            "apiVersion": "admc.dev/v1alpha1",
            "kind": KIND,
            "metadata": {"name": name},
            "spec": {"controller": self.name, **spec},
        }
        self.api.apply(f"{PROGRAMS}/{name}", body)

    def remove_program(self, name: str | None = None) -> None:
        self.api.request("DELETE", f"{PROGRAMS}/{name or self.name}")

    def config_map(self, name: str, data: Mapping[str, str] | None = None, **binary: bytes) -> None:
        """In the namespace of the server. `_` in the names of `binary` stands for `.`."""
        packed = {key.replace("_", "."): base64.b64encode(content).decode() for key, content in binary.items()}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{self.system}/configmaps/{name}"
        self.api.apply(path, {**body, "data": data or {}, "binaryData": packed})

    def status(self, name: str | None = None) -> Mapping[str, Any]:
        found = self.api.request("GET", f"{PROGRAMS}/{name or self.name}")
        status: Mapping[str, Any] = found.get("status") or {}
        return status

    def condition(self, kind: str, name: str | None = None) -> tuple[str, str, str]:
        """Status, reason and message."""
        return _condition(self.status(name), kind)

    def said(self, kind: str, reason: str, message: str = "", name: str | None = None) -> str:
        """What a condition says of the present spec, once it has that reason and that part of a message."""

        def present() -> str:
            program = self.api.request("GET", f"{PROGRAMS}/{name or self.name}")
            found = program.get("status")
            status = found if isinstance(found, dict) else {}
            _, why, text = _condition(status, kind)
            is_present = status.get("observedGeneration") == program["metadata"]["generation"]
            return text if is_present and why == reason and message in text else ""

        text: str = self.until(present)
        return text

    def plan(self, name: str | None = None) -> str:
        """The digest of the plan that the status names; empty without one."""
        plan: Mapping[str, str] = self.status(name).get("plan") or {}
        return plan.get("sha256", "")

    def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.1)
        return found

    def token(self, pod: str, *, audience: str | None = None, account: str = "default") -> str:
        """Bound to a pod that is there."""
        uid = self.api.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}")["metadata"]["uid"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        spec = {"audiences": [audience or f"admc.dev/{self.name}"], "expirationSeconds": 600, "boundObjectRef": bound}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        token: str = self.api.request("POST", path, {"spec": spec})["status"]["token"]
        return token


def _condition(status: Mapping[str, Any], kind: str) -> tuple[str, str, str]:
    for each in status.get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["reason"], each["message"]
    return "", "", ""


def installation(api: ApiServer, folder: Path, *, defined: bool = True) -> Installation:
    """`defined`: the API server gets the kinds `Program` and `Injection`."""
    for each in definitions() if defined else ():
        api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}", each)
    name = f"t{secrets.token_hex(4)}"
    labels = {"admc.dev/controller": name}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    api.apply(f"/api/v1/namespaces/{name}", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.apply(f"/api/v1/namespaces/{name}/serviceaccounts/default", account)
    made = Installation(api, name, name, folder, free_port(), Authority())
    api.apply(f"/api/v1/namespaces/{made.system}", {**body, "metadata": {"name": made.system}})
    return made
