"""Online Boutique's Deployments and Services, written anew: names, ports, probes and security contexts are those of
its release; each process is one that its probes can ask.

SERVICES --manifests--> Deployments, Services
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE: Final = "admc:test"
CALLEE: Final = "/admc/own/tests/cluster/boutique/callee.py"
CALLER: Final = "loadgenerator"


class Part(NamedTuple):
    """One service."""

    protocol: str
    port: int
    """Of the container."""
    period: int | None
    """Seconds between two probes, where the release says so."""
    exposed: int = 0
    """Of the Service, where it differs."""


SERVICES: Final = {
    "adservice": Part("grpc", 9555, 15),
    "cartservice": Part("grpc", 7070, None),
    "checkoutservice": Part("grpc", 5050, None),
    "currencyservice": Part("grpc", 7000, None),
    "emailservice": Part("grpc", 8080, 5, 5000),
    "frontend": Part("http", 8080, None, 80),
    "paymentservice": Part("grpc", 50051, None),
    "productcatalogservice": Part("grpc", 3550, None),
    "recommendationservice": Part("grpc", 8080, 5),
    "redis-cart": Part("tcp", 6379, 5),
    "shippingservice": Part("grpc", 50051, None),
}
POD: Final = {"fsGroup": 1000, "runAsGroup": 1000, "runAsNonRoot": True, "runAsUser": 1000}
CONTAINER: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
}
NAMESPACE: Final = "boutique"
PROGRAM: Final = """\
app boutique
service frontend                                     { http 80 -> 8080  namespace boutique }
service loadgenerator                                { namespace boutique }
service adservice                                    { grpc 9555  namespace boutique }
service cartservice                                  { grpc 7070  namespace boutique }
service checkoutservice                              { grpc 5050  namespace boutique }
service currencyservice                              { grpc 7000  namespace boutique }
service emailservice                                 { grpc 5000 -> 8080  namespace boutique }
service paymentservice, shippingservice              { grpc 50051  namespace boutique }
service productcatalogservice                        { grpc 3550  namespace boutique }
service recommendationservice                        { grpc 8080  namespace boutique }
service redis-cart                                   { tcp 6379  namespace boutique }
call loadgenerator -> frontend
call frontend -> adservice, cartservice, checkoutservice, currencyservice, productcatalogservice
call frontend -> recommendationservice, shippingservice
call checkoutservice -> cartservice, currencyservice, emailservice, paymentservice, productcatalogservice
call checkoutservice -> shippingservice
call recommendationservice -> productcatalogservice
call cartservice -> redis-cart

policy met = add_request_header(name: "x-met", value: "VALUE") on loadgenerator -> frontend
pin met at SIDE
@ingress
policy payers = allow(callers: [checkoutservice]) on * -> paymentservice
@ingress
policy mailers = allow(callers: [checkoutservice]) on * -> emailservice
@ingress
policy carts = allow(callers: [cartservice]) on * -> redis-cart
@ingress
policy catalogs = allow(callers: [frontend, checkoutservice, recommendationservice]) on * -> productcatalogservice
policy ads = timeout(after: 150ms) on frontend -> adservice
policy quotes = rate_limit(requests: 300, per: 60s) on * -> shippingservice
"""


def manifests() -> Iterator[dict[str, Any]]:
    """The caller comes last: its init container waits for the frontend."""
    for name, part in SERVICES.items():
        yield _deployment(name, [_container(name, part)], [])
        yield _service(name, part)
    check = {
        "name": "frontend-check",
        "image": IMAGE,
        "command": ["python", CALLEE, "await", "http://frontend:80/_healthz"],
        "securityContext": CONTAINER,
    }
    load = {
        "name": "main",
        "image": IMAGE,
        "command": ["python", CALLEE, "load", "http://frontend:80/"],
        "securityContext": CONTAINER,
        "resources": {"requests": {"cpu": "50m"}},
    }
    yield _deployment(CALLER, [load], [check], {"sidecar.istio.io/rewriteAppHTTPProbers": "true"})
    # The release has no Service for it: no client calls it. By its selector admc knows the pods of a sender.
    spec = {"clusterIP": "None", "selector": {"app": CALLER}}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": CALLER, "namespace": NAMESPACE, "labels": {"app": CALLER}},
        "spec": spec,
    }


def _container(name: str, part: Part) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "redis" if name == "redis-cart" else "server",
        "image": IMAGE,
        "command": ["python", CALLEE, part.protocol, str(part.port)],
        "ports": [{"containerPort": part.port}],
        "env": [{"name": "PORT", "value": str(part.port)}],
        "securityContext": CONTAINER,
        # The release asks for 100m to 300m, which twelve pods on a machine with two cores would not get.
        "resources": {"requests": {"cpu": "50m"}},
        "readinessProbe": _probe(part, "ready"),
        "livenessProbe": _probe(part, "live"),
    }
    if part.protocol == "tcp":
        container["volumeMounts"] = [{"mountPath": "/data", "name": "redis-data"}]
    return container


def _probe(part: Part, kind: str) -> dict[str, Any]:
    probe: dict[str, Any] = {} if part.period is None else {"periodSeconds": part.period}
    if part.protocol == "grpc":
        return {**probe, "grpc": {"port": part.port}}
    if part.protocol == "tcp":
        return {**probe, "tcpSocket": {"port": part.port}}
    header = {"name": "Cookie", "value": f"shop_session-id=x-{kind}ness-probe"}
    return {"initialDelaySeconds": 10, "httpGet": {"path": "/_healthz", "port": part.port, "httpHeaders": [header]}}


def _deployment(
    name: str, containers: list[dict[str, Any]], first: list[dict[str, Any]], annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    labels = {"app": name}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 5,
        "securityContext": POD,
        "containers": containers,
    }
    if first:
        spec["initContainers"] = first
    if name == "redis-cart":
        spec["volumes"] = [{"name": "redis-data", "emptyDir": {}}]
    metadata: dict[str, Any] = {"labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": metadata, "spec": spec}},
    }


def _service(name: str, part: Part) -> dict[str, Any]:
    port = {"name": part.protocol, "port": part.exposed or part.port, "targetPort": part.port}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {"type": "ClusterIP", "selector": {"app": name}, "ports": [port]},
    }
