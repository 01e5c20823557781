"""The webhook at a real API server: pods that it creates get their ADMs from any replica, and pass if none answers."""

from __future__ import annotations

import base64
import contextlib
import copy
import http.client
import json
import signal
import ssl
import subprocess
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admc.kubernetes.cluster.authority.authorities import advanced
from admc.kubernetes.cluster.authority.keeper import LOOK_SECONDS
from admc.kubernetes.cluster.authority.schedule import DAY, Step
from admc.kubernetes.cluster.injections.objects import PATH
from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.recognised import recognised
from admc.kubernetes.inject.spec import FORMAT
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from tests.cluster.node.cluster import path_of
from tests.cluster.objects import container
from tests.cluster.serve.installation import PROGRAM, Installation, installation
from tests.cluster.serve.test_injections import EGRESS, captured
from tests.cluster.serve.test_own_authority import config_map, store, stored
from tests.cluster.serve.test_rights import CORE, RBAC, grant
from tests.cluster.tools import MissingError
from tests.deploy.chart import installed, rendered
from tests.serve.pki import Authority
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.cluster.api_server import ApiServer
    from tests.serve.server_process import Served

AT_EGRESS = PROGRAM.replace("SIDE", "egress")
WEB = PodNeeds("shop/web", PodCaptures(frozenset(), frozenset({8081})), waits=False)
OURS = ["admc-rules", "admc-proxy"]
SOON = 60.0


@dataclass
class Created:
    pod: dict[str, Any]
    warnings: list[str]

    @property
    def names(self) -> list[str]:
        return [each["name"] for each in self.pod["spec"].get("initContainers") or ()]


@dataclass
class Hooked:
    """An installation with a webhook."""

    shop: Installation
    port: int = field(default_factory=free_port)

    def server(self, *options: str, **others: Any) -> AbstractContextManager[Served]:
        return self.shop.server("--webhook", f"127.0.0.1:{self.port}", *options, **others)

    def configure(self, port: int = 0, bundle: bytes = b"") -> None:
        """The configuration of the chart; there is no Service here that leads to the server."""
        found = copy.deepcopy(next(each for each in installed() if each["kind"] == "MutatingWebhookConfiguration"))
        found["metadata"] = {"name": f"admc-{self.shop.name}"}
        (webhook,) = found["webhooks"]
        webhook["clientConfig"] = {"url": f"https://localhost:{port or self.port}/inject"}
        if bundle:
            webhook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        webhook["namespaceSelector"]["matchLabels"] = {"admc.dev/controller": self.shop.name}
        self.shop.api.apply(path_of(found), found)

    @property
    def configuration(self) -> dict[str, Any]:
        path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/admc-{self.shop.name}"
        found: dict[str, Any] = self.shop.api.request("GET", path)
        return found

    def create(self, service: str = "web", **others: Any) -> Created:
        """Create a pod; what becomes of it, and the warnings that a client gets."""
        status, content, warnings = self.post(service, **others)
        assert status == 201, content["message"]
        return Created(content, warnings)

    def post(
        self, service: str = "web", *, namespace: str = "", annotations: Any = None, labels: Any = (), **spec: Any
    ) -> tuple[int, dict[str, Any], list[str]]:
        api = self.shop.api
        metadata = {"generateName": f"{service}-", "annotations": annotations}
        metadata["labels"] = {"app": service} if labels == () else labels
        body = {"containers": [container()], "serviceAccountName": "default", **spec}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}
        tls = ssl.create_default_context(cafile=str(api.ca))
        with contextlib.closing(
            http.client.HTTPSConnection(api.place.address, api.place.port, timeout=30, context=tls)
        ) as connection:
            headers = {"Authorization": f"Bearer {api.admin_token}", "Content-Type": "application/json"}
            path = f"/api/v1/namespaces/{namespace or self.shop.namespace}/pods"
            connection.request("POST", path, json.dumps(document), headers)
            answer = connection.getresponse()
            content = json.loads(answer.read())
        return answer.status, content, answer.headers.get_all("Warning") or []

    def until_injected(self) -> Created:
        """The API server takes a changed configuration over after a moment. Until then the guard, where the chart is
        installed, may refuse a pod."""

        def injected_pod() -> Created | None:
            status, content, warnings = self.post()
            if status == 201:
                created = Created(content, warnings)
                return created if created.names else None
            assert "ValidatingAdmissionPolicy" in content["message"], content
            return None

        made: Created = self.shop.until(injected_pod)
        return made


@pytest.fixture
def hooked(shop: Installation) -> Iterator[Hooked]:
    with hooks(shop) as it:
        yield it


@contextlib.contextmanager
def hooks(shop: Installation) -> Iterator[Hooked]:
    it = Hooked(shop)
    it.configure()
    yield it
    with contextlib.suppress(OSError):  # an API server of the test's own may be away
        shop.api.request("DELETE", f"{path_of(it.configuration)}")


def begin(hooked: Hooked, server: Served) -> None:
    hooked.shop.program(AT_EGRESS)
    hooked.shop.until(lambda: captured(hooked.shop) == EGRESS)
    server.until_event("webhook_authority_written")
    assert hooked.until_injected().names == OURS


def test_pods_get_their_adms_from_any_replica_and_pass_without_one(hooked: Hooked) -> None:
    shop, other = hooked.shop, Hooked(hooked.shop)
    with hooked.server(own_authority=True) as server:
        begin(hooked, server)
        plain = {"metadata": {}, "spec": {"containers": [container()]}}
        wanted = injected(plain, WEB, shop.injection).template
        assert wanted is not None
        created = hooked.create()
        assert recognised(created.pod, shop.injection) == (set(OURS), "")
        for stored, written in zip(
            created.pod["spec"]["initContainers"], wanted["spec"]["initContainers"], strict=True
        ):
            assert {name: stored[name] for name in ("args", "image", "resources")} == {
                name: written[name] for name in ("args", "image", "resources")
            }
        assert created.warnings == []
        assert hooked.create("cart").names == ["admc-wait"]
        assert hooked.create("other").names == []
        assert hooked.create(namespace="default").names == []
        event = server.events("pod_injected")[-1]
        assert (event["pod"], event["service"], event["parts"]) == (f"{shop.namespace}/cart-", "cart", ["admc-wait"])
        assert server.metric("admc_webhook_seconds_count") >= 4
        assert 'admc_webhook_reviews_total{outcome="injected"} ' in server.get("/metrics")[1]

        created = hooked.create(hostNetwork=True)
        assert created.names == []
        assert any("ADM922" in warning for warning in created.warnings)
        assert server.until_event("pod_not_injected")["service"] == "web"
        created = hooked.create(annotations={"admc.dev/adm-memory": "1Gi"})
        assert created.pod["spec"]["initContainers"][1]["resources"]["requests"]["memory"] == "1Gi"
        created = hooked.create(annotations={"admc.dev/inject": "false"})
        assert created.names == []
        assert any("ADM959" in warning for warning in created.warnings)

        with other.server(own_authority=True, port=free_port(), stands_by=True) as standby:
            standby.until_event("webhook_listening")
            hooked.configure(other.port)
            shop.until(lambda: hooked.create().names == OURS and standby.events("pod_injected"))
            assert 'admc_webhook_reviews_total{outcome="injected"} ' in standby.get("/metrics")[1]
            server.stop(signal.SIGKILL)
            assert hooked.create().names == OURS, "nothing is active"
            standby.stop(signal.SIGKILL)
        created = hooked.create()
        assert (created.names, created.pod["spec"]["containers"][0]["name"]) == ([], "app")


def test_unusual_pods_pass_with_a_sentence_or_get_their_adms(hooked: Hooked) -> None:
    shop = hooked.shop
    probe = {"httpGet": {"port": "nowhere", "path": "/"}}
    with hooked.server(own_authority=True) as server:
        begin(hooked, server)
        for spec, warning in (
            ({"containers": [container("admc-proxy")]}, "ADM921"),
            ({"volumes": [{"name": "admc-config", "emptyDir": {}}]}, "ADM921"),
            ({"containers": [container(ports=[{"containerPort": 15001}])]}, "ADM925"),
            ({"containers": [container(readinessProbe=probe)]}, "ADM923"),
            ({"annotations": {"admc.dev/inject": "perhaps"}}, "ADM958"),
            ({"annotations": {"admc.dev/adm-cpu-limit": "-1"}}, "ADM958"),
        ):
            created = hooked.create(**spec)
            assert set(created.names).isdisjoint(OURS)
            assert any(warning in each for each in created.warnings), created.warnings
        path = {"httpGet": {"port": 8081, "path": "/a/../b/%2f?x=y"}}
        for spec in (
            {"hostUsers": False},
            {"restartPolicy": "Never"},
            {"containers": [container(f"c{number}") for number in range(300)]},
            {"containers": [container(readinessProbe=path)]},
            {"annotations": {"large": "x" * 200_000}},
        ):
            created = hooked.create(**spec)
            assert created.names == OURS
            assert recognised(created.pod, shop.injection) == (set(OURS), "")
        assert hooked.create(labels=None).names == []
        shop.service("cart", 8081, selector={"tier": "back"})
        shop.until(lambda: hooked.create(labels={"tier": "back"}).names == ["admc-wait"])
        created = hooked.create(labels={"app": "web", "tier": "back"})
        assert created.names == []
        assert any("ADM926: its pods are those of `cart` and `web`" in each for each in created.warnings)
        assert not [event for event in server.events() if "error" in event or event["level"] == "error"]


# ---- other webhooks ----


class Meddler:
    """Another webhook of the cluster."""

    def __init__(self, change: Callable[[dict[str, Any]], object], folder: Path) -> None:
        self.authority = Authority("meddler")
        certificate, key = self.authority.issue(dns=("localhost",)).write(folder, "meddler")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                spec = request["object"]["spec"]
                change(spec)
                patch = [{"op": "replace", "path": "/spec", "value": spec}]
                encoded = base64.b64encode(json.dumps(patch).encode()).decode()
                response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": encoded}
                review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
                body = json.dumps(review).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: the output is that of the tests."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)


def configured(meddler: Meddler, hooked: Hooked, first: str) -> dict[str, Any]:
    """Webhooks are called in the order of their configurations' names."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    client = {
        "url": f"https://localhost:{meddler.server.server_address[1]}/",
        "caBundle": base64.b64encode(meddler.authority.certificate).decode(),
    }
    webhook = {
        "name": "meddler.example.com",
        "clientConfig": client,
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"admc.dev/controller": hooked.shop.name}},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"{first}-{hooked.shop.name}"},
        "webhooks": [webhook],
    }


@contextlib.contextmanager
def meddling(hooked: Hooked, change: Callable[[dict[str, Any]], object], first: str) -> Iterator[None]:
    meddler = Meddler(change, hooked.shop.folder)
    Thread(target=meddler.server.serve_forever, daemon=True).start()
    document = configured(meddler, hooked, first)
    hooked.shop.api.apply(path_of(document), document)
    try:
        hooked.shop.until(lambda: "meddled" in hooked.create("other").pod["spec"]["nodeSelector"])
        yield
    finally:
        hooked.shop.api.request("DELETE", path_of(document))
        meddler.server.shutdown()
        meddler.server.server_close()
        hooked.shop.until(lambda: "nodeSelector" not in hooked.create("other").pod["spec"])


def in_front(spec: dict[str, Any]) -> None:
    spec["nodeSelector"] = {"meddled": "yes"}
    listed = spec.setdefault("initContainers", [])
    if all(item["name"] != "theirs" for item in listed):
        listed.insert(0, container("theirs"))


def stripping(spec: dict[str, Any]) -> None:
    spec["nodeSelector"] = {"meddled": "yes"}
    spec.pop("initContainers", None)


def with_variables(spec: dict[str, Any]) -> None:
    spec["nodeSelector"] = {"meddled": "yes"}
    for item in (*spec["containers"], *(spec.get("initContainers") or ())):
        item.setdefault("env", []).append({"name": "HTTPS_PROXY", "value": "http://proxy:3128"})


def test_ours_are_the_first_again_after_other_webhooks(hooked: Hooked) -> None:
    with hooked.server(own_authority=True) as server:
        begin(hooked, server)
        for change, first, others in (
            (in_front, "z", ["theirs"]),
            (in_front, "a", ["theirs"]),
            (stripping, "z", []),
            (with_variables, "z", []),
            (with_variables, "a", []),
        ):
            with meddling(hooked, change, first):
                created = hooked.create()
                assert created.names == [*OURS, *others], (change, first)
                assert recognised(created.pod, hooked.shop.injection) == (set(OURS), "")
                if change is with_variables:
                    assert created.pod["spec"]["containers"][0]["env"][0]["name"] == "HTTPS_PROXY"


# ---- faults ----


def test_a_wrong_authority_is_put_right_and_a_missing_configuration_is_said(hooked: Hooked) -> None:
    shop = hooked.shop
    with hooked.server(own_authority=True) as server:
        begin(hooked, server)
        shop.said("Resolved", "Resolved")
        hooked.configure(bundle=Authority("stranger").certificate)
        # The API server keeps connections; it makes another one with other authorities.
        shop.until(lambda: not hooked.create().names, 20)
        server.until_event("webhook_handshake_failed")
        server.until_event("webhook_authority_written", 2)
        assert hooked.until_injected().names == OURS

        shop.api.request("DELETE", path_of(hooked.configuration))
        text = shop.said("Resolved", "Resolved", "ADM972")
        assert f"there is no MutatingWebhookConfiguration `admc-{shop.name}` with the webhook `pods.admc.dev`" in text
        assert "ADM972" in server.status()["server"]["source"]
        assert hooked.create().names == []
        hooked.configure()
        server.until_event("webhook_ready")
        assert hooked.until_injected().names == OURS


def test_an_expired_certificate_lets_pods_pass_and_a_renewed_one_needs_no_restart(hooked: Hooked) -> None:
    shop = hooked.shop
    folder = shop.folder / "tls"
    folder.mkdir()
    certificate, key = shop.authority.issue(dns=("localhost",), seconds=25).write(folder, "server")
    expires = time.monotonic() + 25
    (folder / "ca.crt").write_bytes(shop.authority.certificate)
    files = ("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-ca", str(folder / "ca.crt"))
    with hooked.server(*files, own_authority=True) as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: captured(shop) == EGRESS)
        server.until_event("webhook_authority_written")
        time.sleep(max(0.0, expires + 1 - time.monotonic()))
        assert hooked.create().names == []
        why = server.until_event("webhook_handshake_failed")["why"]
        assert why == "SSLV3_ALERT_BAD_CERTIFICATE"
        shop.authority.issue(dns=("localhost",)).write(folder, "server")
        assert hooked.until_injected().names == OURS


def test_an_injection_of_a_newer_admc_is_said(hooked: Hooked) -> None:
    shop = hooked.shop
    spec = {"formatVersion": FORMAT + 1, "app": "a", "server": "a:1", "services": {}, "index": {}}
    body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Injection", "spec": spec}
    labels = {"admc.dev/controller": shop.name}
    with hooked.server(own_authority=True) as server:  # without a Program it writes none
        server.until_event("webhook_authority_written")
        shop.api.apply(
            PATH.format(shop.namespace, shop.name), {**body, "metadata": {"name": shop.name, "labels": labels}}
        )
        created = shop.until(lambda: it if (it := hooked.create()).warnings else None)
        assert created.names == []
        assert f"ADM970: the `Injection` `{shop.name}` of its namespace cannot be used" in created.warnings[0]
        assert f"format version {FORMAT + 1}, and this admc reads {FORMAT}" in created.warnings[0]


ADDRESS = "10.99.0.1"


@pytest.fixture
def address() -> Iterator[str]:
    """An address that an EndpointSlice may have, in the network of the test."""
    change = ["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"]
    try:
        done = subprocess.run(change, capture_output=True, text=True, timeout=10)
    except FileNotFoundError:
        pytest.skip("needs `ip`")
    if done.returncode:
        pytest.skip(f"needs root: {done.stderr.strip()}")
    yield ADDRESS
    change[2] = "delete"
    subprocess.run(change, check=True, timeout=10)


def test_the_api_server_reaches_and_trusts_the_service_of_the_chart(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path, address: str
) -> None:
    # The API server then looks for the addresses of a Service itself: no kube-proxy runs here.
    shop = installation(new_cluster_api(["--enable-aggregator-routing=true"]), tmp_path)
    shop.service("web", 8080)
    shop.service("cart", 8081)
    hooked = Hooked(shop)
    try:
        values = f"installation={shop.name},definitions=false,createNamespace=true"
        text = rendered("--set", values, namespace=shop.system)
    except MissingError as error:
        pytest.skip(str(error))
    objects = [each for each in yaml.safe_load_all(text) if each]
    for each in sorted(objects, key=lambda each: each["kind"] != "Namespace"):
        shop.api.apply(path_of(each), each)
    service = f"admc-{shop.name}-webhook"
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": service,
            "namespace": shop.system,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "webhook", "port": hooked.port, "protocol": "TCP"}],
    }
    shop.api.apply(path_of(slice_), slice_)
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shop.system}}
    labels = {"admc.dev/controller": shop.name, "pod-security.kubernetes.io/enforce": "privileged"}
    shop.api.apply(path_of(own), {**own, "metadata": {"name": shop.system, "labels": labels}}, "labels")
    account = f"system:serviceaccount:{shop.system}:admc-{shop.name}"
    user = shop.api.credentials.client(account, "system:serviceaccounts")
    shop.kubeconfig = shop.api.credentials.kubeconfig("account", shop.api.url, user)
    with shop.server("--webhook", f"{address}:{hooked.port}", own_authority=True) as server:
        begin(hooked, server)
        before = reviews(server)
        assert hooked.create(namespace=shop.system).names == []
        assert reviews(server) == before, "it is never asked about its own namespace"
        assert not server.events("webhook_handshake_failed")
        resolved = shop.said("Resolved", "Resolved")
        assert "ADM97" not in resolved
        label = f"the namespace `{shop.system}` has the label `admc.dev/controller={shop.name}`, and takes no part"
        assert f"ADM944: {label} (it is the namespace of the server" in resolved
        shop.program(AT_EGRESS.replace("namespace NAMESPACE", f"namespace {shop.system}"))
        refused = shop.said("Resolved", "NotResolved")
        assert f"ADM944: the namespace `{shop.system}` of `cart` takes no part in `{shop.name}`" in refused
        assert f"take the label off: `kubectl label namespace {shop.system} admc.dev/controller-`" in refused
        listed = shop.api.request("GET", f"/api/v1/namespaces/{shop.system}/configmaps")["items"]
        assert f"admc-{shop.name}" not in [each["metadata"]["name"] for each in listed], "no proxy starts there"


def reviews(server: Served) -> list[str]:
    return [line for line in server.get("/metrics")[1].splitlines() if line.startswith("admc_webhook_reviews_total")]


@pytest.mark.long
def test_a_restarted_api_server_asks_again(new_cluster_api: Callable[..., ApiServer], tmp_path: Path) -> None:
    shop = installation(new_cluster_api(), tmp_path)
    shop.service("web", 8080)
    shop.service("cart", 8081)
    with hooks(shop) as hooked, hooked.server(own_authority=True) as server:
        begin(hooked, server)
        shop.api.kill()
        shop.api.restart()
        assert hooked.until_injected().names == OURS


@pytest.mark.long
def test_a_new_authority_signs_only_when_the_api_server_trusts_it(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path
) -> None:
    shop = installation(new_cluster_api(), tmp_path)
    api = shop.api
    shop.service("web", 8080)
    shop.service("cart", 8081)
    shop.kubeconfig = api.credentials.kubeconfig("limited", api.url, api.credentials.client("admc", "limited"))
    grant(api, *CORE)  # no right to configurations of webhooks
    with hooks(shop) as hooked:
        now, names = time.time(), ("localhost", f"admc-{shop.name}.{shop.system}.svc")
        names += (f"admc-{shop.name}-webhook.{shop.system}.svc",)
        old = advanced(None, Step.CREATE, shop.name, names, now - 250 * DAY)
        store(shop, advanced(old, Step.RENEW, shop.name, names, now - DAY))
        with hooked.server(own_authority=True) as server:
            shop.program(AT_EGRESS)
            shop.until(lambda: config_map(shop).get("ca.crt", "").count("BEGIN CERTIFICATE") == 2)
            assert "ADM973" in shop.said("Resolved", "Resolved", "ADM973")
            time.sleep(LOOK_SECONDS + 5)
            assert [event["step"] for event in server.events("authority_step")] == ["make_next"]
            assert hooked.create().names == []
            every = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["get", "patch"]}
            role = api.request("GET", f"{RBAC}/clusterroles/admc")
            rules = [*role["rules"], every]
            kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "admc"}}
            api.apply(f"{RBAC}/clusterroles/admc", {**kind, "rules": rules})
            server.until(lambda: "note_shown" in [event["step"] for event in server.events("authority_step")], 120)
            (webhook,) = hooked.configuration["webhooks"]
            bundle = base64.b64decode(webhook["clientConfig"]["caBundle"]).decode()
            assert bundle == config_map(shop)["ca.crt"] == stored(shop).bundle
            assert hooked.until_injected().names == OURS
