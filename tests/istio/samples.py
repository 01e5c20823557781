"""Resources that are right, one for most fields of each kind, and small changes that may make them wrong."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.istio.objects import NETWORKING, SECURITY, Json, thing

GATEWAY: Final = "gateway.networking.k8s.io/v1"
PORT: Final[Json] = {"number": 80, "name": "http", "protocol": "HTTP"}
SELECTOR: Final[Json] = {"matchLabels": {"app": "cart"}}


def virtual_service() -> Json:
    match = {"uri": {"prefix": "/a"}, "headers": {"x": {"exact": "y"}}, "port": 80, "sourceLabels": {"app": "web"}}
    destination = {"host": "cart", "subset": "v1", "port": {"number": 80}}
    http = {
        "name": "first",
        "match": [match],
        "route": [{"destination": destination, "weight": 100, "headers": {"request": {"set": {"a": "b"}}}}],
        "timeout": "5s",
        "retries": {"attempts": 3, "perTryTimeout": "2s", "retryOn": "5xx"},
        "fault": {"abort": {"percentage": {"value": 0.1}, "httpStatus": 400}},
        "corsPolicy": {"allowOrigins": [{"exact": "https://a.example"}], "maxAge": "24h"},
        "mirrors": [{"destination": {"host": "b"}, "percentage": {"value": 10.0}}],
    }
    tcp = {"match": [{"port": 3306}], "route": [{"destination": {"host": "db"}}]}
    spec = {"hosts": ["cart"], "gateways": ["mesh"], "exportTo": ["."], "http": [http], "tcp": [tcp]}
    return thing(NETWORKING, "VirtualService", "v", spec=spec)


def destination_rule() -> Json:
    policy: Json = {
        "loadBalancer": {"consistentHash": {"httpCookie": {"name": "a", "ttl": "0s"}}},
        "connectionPool": {"tcp": {"maxConnections": 1, "connectTimeout": "1s"}, "http": {"http2MaxRequests": 5}},
        "outlierDetection": {"consecutive5xxErrors": 7, "interval": "5m", "baseEjectionTime": "15m"},
        "tls": {"mode": "ISTIO_MUTUAL"},
        "portLevelSettings": [{"port": {"number": 80}, "loadBalancer": {"simple": "LEAST_REQUEST"}}],
    }
    subsets = [{"name": "v1", "labels": {"version": "v1"}, "trafficPolicy": {"tls": {"mode": "DISABLE"}}}]
    spec = {"host": "cart", "trafficPolicy": policy, "subsets": subsets, "workloadSelector": SELECTOR}
    return thing(NETWORKING, "DestinationRule", "d", spec=spec)


def right() -> list[Json]:
    """Resources that an API server takes."""
    entry = {
        "hosts": ["a.example"],
        "addresses": ["10.0.0.1"],
        "ports": [PORT],
        "resolution": "STATIC",
        "location": "MESH_EXTERNAL",
        "endpoints": [{"address": "2.2.2.2", "ports": {"http": 8080}, "labels": {"a": "b"}, "weight": 2}],
    }
    server = {"port": PORT, "hosts": ["*.example"], "tls": {"mode": "SIMPLE", "credentialName": "c"}}
    sidecar = {
        "workloadSelector": {"labels": {"app": "cart"}},
        "ingress": [{"port": PORT, "defaultEndpoint": "127.0.0.1:80"}],
        "egress": [{"hosts": ["./*"], "port": PORT, "bind": "127.0.0.1"}],
        "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"},
    }
    rule = {
        "from": [{"source": {"principals": ["cluster.local/ns/shop/sa/web"], "ipBlocks": ["10.0.0.0/8"]}}],
        "to": [{"operation": {"methods": ["GET"], "paths": ["/a*"], "ports": ["80"]}}],
        "when": [{"key": "request.auth.claims[iss]", "values": ["a"]}],
    }
    token = {"issuer": "a", "jwksUri": "https://a.example/keys", "fromHeaders": [{"name": "x", "prefix": "y"}]}
    telemetry = {"metrics": [{"providers": [{"name": "prometheus"}], "overrides": [{"disabled": True}]}]}
    backend = {"name": "cart", "port": 80, "weight": 1}
    http_rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/a"}, "method": "GET"}],
        "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}}],
        "backendRefs": [backend],
        "timeouts": {"request": "10s"},
    }
    plugin = {"url": "oci://a/b", "pluginConfig": {"a": 1}, "vmConfig": {"env": [{"name": "a", "value": "b"}]}}
    parent = [{"name": "g", "namespace": "infra", "sectionName": "http"}]
    listener = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
    addresses = [{"value": "10.0.0.1"}, {"type": "Hostname", "value": "a.example"}, {"value": "2001:db8::1"}]
    grant = {"from": [{"group": "a", "kind": "HTTPRoute", "namespace": "x"}], "to": [{"group": "", "kind": "Service"}]}
    patch = {"applyTo": "HTTP_FILTER", "match": {"context": "ANY"}, "patch": {"operation": "MERGE", "value": {"a": 1}}}
    return [
        virtual_service(),
        destination_rule(),
        thing(NETWORKING, "ServiceEntry", "e", spec=entry),
        thing(NETWORKING, "Gateway", "g", spec={"selector": {"istio": "ingress"}, "servers": [server]}),
        thing(NETWORKING, "Sidecar", "s", spec=sidecar),
        thing(NETWORKING, "WorkloadEntry", "w", spec={"address": "2.2.2.2", "serviceAccount": "a", "ports": {"a": 80}}),
        thing("networking.istio.io/v1alpha3", "EnvoyFilter", "f", spec={"configPatches": [patch], "priority": 1}),
        thing("networking.istio.io/v1beta1", "ProxyConfig", "p", spec={"concurrency": 0, "selector": SELECTOR}),
        thing(SECURITY, "AuthorizationPolicy", "a", spec={"selector": SELECTOR, "action": "ALLOW", "rules": [rule]}),
        thing(
            SECURITY,
            "PeerAuthentication",
            "p",
            spec={"selector": SELECTOR, "mtls": {"mode": "STRICT"}, "portLevelMtls": {"8080": {"mode": "DISABLE"}}},
        ),
        thing(SECURITY, "RequestAuthentication", "r", spec={"selector": SELECTOR, "jwtRules": [token]}),
        thing("telemetry.istio.io/v1", "Telemetry", "t", spec={"selector": SELECTOR, **telemetry}),
        thing("extensions.istio.io/v1alpha1", "WasmPlugin", "w", spec=plugin),
        thing(GATEWAY, "HTTPRoute", "h", spec={"parentRefs": parent, "hostnames": ["a.example"], "rules": [http_rule]}),
        thing(GATEWAY, "GRPCRoute", "g", spec={"parentRefs": parent, "rules": [{"backendRefs": [backend]}]}),
        thing(GATEWAY, "TLSRoute", "t", spec={"hostnames": ["a.example"], "rules": [{"backendRefs": [backend]}]}),
        thing(GATEWAY, "Gateway", "g", spec={"gatewayClassName": "istio", "listeners": [listener]}),
        thing(GATEWAY, "Gateway", "a", spec={"gatewayClassName": "i", "listeners": [listener], "addresses": addresses}),
        thing("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", "r", spec=grant),
    ]


TEXTS: Final = ("", "x", "5s", "0s", "*", "STRICT", "http://a")
REPLACED: Final = (None, True, 0, -1, 70000, 1.5, *TEXTS, [], {}, ["a"], {"a": "b"})


def changed(document: Json, seed: int) -> Json:
    """A resource with one or two small changes in its spec."""
    drawn = random.Random(seed)  # noqa: S311 - a test
    made = copy.deepcopy(document)
    for _ in range(drawn.choice((1, 1, 2))):
        places = list(_places(made["spec"]))
        if not places:
            break
        around, key = drawn.choice(places)
        change = drawn.choice(("drop", "replace", "replace", "add", "twice"))
        if change == "replace":
            around[key] = copy.deepcopy(drawn.choice(REPLACED))
        elif change == "drop":
            del around[key]
        elif isinstance(around, list):
            around.append(copy.deepcopy(around[key]))
        elif change == "add":
            around["unknownField"] = 1
        else:
            around[f"{key}s"] = copy.deepcopy(around[key])
    return made


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = list(data) if isinstance(data, dict) else range(len(data))
    for key in keys:
        yield data, key
        if isinstance(data[key], dict | list):
            yield from _places(data[key])
