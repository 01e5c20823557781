"""Random small meshes: namespaces, Services, pods, and resources of Istio that are right by their schemas.

    seed --random_mesh--> Case

Each limit on connections is another number, so that a limit in a proxy's configuration says which
DestinationRule set it. Resources have few names, labels, hosts and namespaces, so that several concern one place.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.istio.objects import NETWORKING, SECURITY, Json, namespace, thing

ROOT: Final = "istio-system"
HEADLESS: Final = "None"
"""The address of a Service whose name stands for its pods."""
DOMAIN: Final = "svc.cluster.local"
FILTER: Final = "added by "
SUBSETS: Final = ("v1", "v2")
PROVIDER: Final = "judge"
EXTERNAL: Final = ("api.example.com", "db.example.net", "www.example.org")


class Port(NamedTuple):
    name: str
    number: int
    target: int
    application: str = ""
    """Its `appProtocol`."""
    is_named: bool = False
    """Whether the Service names the port of the pods, instead of giving its number."""


PORTS: Final = (
    Port("http", 80, 8080),
    Port("http-admin", 8081, 8081),
    Port("grpc", 9000, 9000),
    Port("tcp", 5432, 5432),
    Port("https", 443, 8443),
    Port("main", 7000, 7000),
    Port("data", 27017, 27017),
    Port("odd", 9100, 9100, "http2"),
    Port("http-odd", 9200, 9200, "tcp"),
    Port("tcp-odd", 9300, 9300, "kubernetes.io/h2c"),
)
"""Of each protocol; that of `main` is not declared, and that of `data` is known by its number."""


class Service(NamedTuple):
    name: str
    namespace: str
    address: str
    ports: tuple[Port, ...]
    exported: str = ""
    """The namespaces that see it, as its annotation has them; all if it has none."""
    other_app: str = ""
    """The pods that it selects, if they are not those of its own name."""
    minute: int = 0
    """Of its creation."""

    @property
    def app(self) -> str:
        return self.other_app or self.name

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}.{DOMAIN}"


class Pod(NamedTuple):
    name: str
    namespace: str
    labels: Mapping[str, str]
    address: str
    has_sidecar: bool
    is_gateway: bool = False

    @property
    def workload(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Case:
    """A mesh, as documents, and what a comparison needs of it."""

    name: str
    services: tuple[Service, ...]
    pods: tuple[Pod, ...]
    kubernetes: tuple[Json, ...]
    istio: tuple[Json, ...]
    mesh_config: Json = field(default_factory=dict)

    def request(self) -> Json:
        """What the oracle reads."""
        return {
            "name": self.name,
            "kubernetes": "\n---\n".join(json.dumps(document) for document in (*self.kubernetes, *self._endpoints())),
            "istio": "\n---\n".join(json.dumps(document) for document in self.istio),
            "meshConfig": json.dumps(self.mesh_config),
            "proxies": [_proxy(pod) for pod in self.pods if pod.has_sidecar or pod.is_gateway],
        }

    def of_sidecars(self, proxies: Mapping[str, Json]) -> dict[str, Json]:
        """Of what Istio says of each proxy, the part of sidecars."""
        gateways = {pod.workload for pod in self.pods if pod.is_gateway}
        return {name: facts for name, facts in proxies.items() if name not in gateways}

    def _endpoints(self) -> Iterator[Json]:
        """What Kubernetes itself makes of Services and pods."""
        for service in self.services:
            yield {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": service.name,
                    "namespace": service.namespace,
                    "labels": {"kubernetes.io/service-name": service.name},
                },
                "addressType": "IPv4",
                "endpoints": [
                    {
                        "addresses": [pod.address],
                        "conditions": {"ready": True},
                        "targetRef": {"kind": "Pod", "name": pod.name, "namespace": pod.namespace},
                    }
                    for pod in self.pods
                    if (pod.namespace, pod.labels["app"]) == (service.namespace, service.app)
                ],
                "ports": [{"name": port.name, "port": port.target, "protocol": "TCP"} for port in service.ports],
            }

    def documents(self) -> tuple[Json, ...]:
        """What `admc advise` reads."""
        data = {"mesh": json.dumps(self.mesh_config)}
        return *self.kubernetes, *self.istio, thing("v1", "ConfigMap", "istio", ROOT, data=data)


def _proxy(pod: Pod) -> Json:
    made = {"name": pod.name, "namespace": pod.namespace, "labels": dict(pod.labels), "ip": pod.address}
    return {**made, "gateway": True} if pod.is_gateway else made


def case(name: str, services: tuple[Service, ...], pods: tuple[Pod, ...], *istio: Json, **mesh_config: Any) -> Case:
    """A mesh of resources that are given."""
    spaces = sorted({ROOT, *(pod.namespace for pod in pods), *(service.namespace for service in services)})
    kubernetes = (*map(namespace, spaces), *map(service_document, services), *map(pod_document, pods))
    return Case(name, services, pods, kubernetes, istio, mesh_config)


def service_document(service: Service) -> Json:
    ports = [_port_document(port) for port in service.ports]
    spec = {"selector": {"app": service.app}, "clusterIP": service.address, "ports": ports}
    annotations = {"networking.istio.io/exportTo": service.exported} if service.exported else {}
    metadata = {"annotations": annotations, "creationTimestamp": f"2026-01-01T00:0{service.minute}:00Z"}
    return thing("v1", "Service", service.name, service.namespace, metadata=metadata, spec=spec)


def _port_document(port: Port) -> Json:
    target = f"p{port.target}" if port.is_named else port.target
    made = {"name": port.name, "port": port.number, "targetPort": target, "protocol": "TCP"}
    return {**made, "appProtocol": port.application} if port.application else made


def pod_document(pod: Pod) -> Json:
    ports = [{"name": f"p{port.target}", "containerPort": port.target, "protocol": "TCP"} for port in PORTS]
    containers: list[Json] = [{"name": "app", "image": "app", "ports": ports}]
    labels = dict(pod.labels)
    if pod.is_gateway:
        containers = [{"name": "istio-proxy", "image": "proxy", "args": ["proxy", "router"]}]
        labels["security.istio.io/tlsMode"] = "istio"
    if pod.has_sidecar:
        containers.append({"name": "istio-proxy", "image": "proxy"})
        labels["security.istio.io/tlsMode"] = "istio"
    spec = {"serviceAccountName": pod.labels["app"], "containers": containers}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": pod.address, "conditions": conditions}
    metadata = {"labels": labels, "uid": f"uid-{pod.namespace}-{pod.name}"}
    return thing("v1", "Pod", pod.name, pod.namespace, metadata=metadata, spec=spec, status=status)


def random_mesh(seed: int) -> Case:
    """The same mesh for the same number."""
    return _Drawing(seed).mesh()


class _Drawing:
    """The choices of one mesh."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test
        self.name = f"random-{seed}"
        self.mark = 1000
        self.spaces = ["shop", "bank"][: self.random.choice((1, 2, 2))]
        self.services: tuple[Service, ...] = ()
        self.outside: list[str] = []

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def mesh(self) -> Case:
        names = self.random.sample(["cart", "stock", "pay", "mail"], self.random.choice((1, 2, 2, 3)))
        self.services = tuple(self._service(name, number) for number, name in enumerate(names, start=1))
        if self.chance(25):
            self.services += (self._service_beside(self.services[0]),)
        pods = tuple(self._pods())
        istio = [*self._entries()]
        istio += [self._virtual_service(n) for n in range(self._number(0, 1, 2, 2, 3, 4))]
        if self.chance(30):
            istio += self._delegation()
        istio += [self._destination_rule(n) for n in range(self._number(1, 2, 3, 4, 5))]
        istio += [self._peer_authentication(n) for n in range(self._number(0, 1, 1, 2, 3))]
        istio += [self._authorization(n) for n in range(self._number(0, 1, 2, 3))]
        istio += [self._tokens(n) for n in range(self._number(0, 0, 1, 2))]
        istio += [self._filter(n) for n in range(self._number(0, 0, 1, 2))]
        istio += [self._sidecar(n) for n in range(self._number(0, 0, 0, 1, 2))]
        return case(self.name, self.services, pods, *map(self._aged, istio), **self._mesh_config())

    def _number(self, *of: int) -> int:
        return self.random.choice(of)

    def _service(self, name: str, number: int) -> Service:
        ports = self.random.sample(PORTS, self._number(1, 1, 2, 3))
        ports = [port._replace(is_named=self.chance(15)) for port in ports]
        space = self._home()
        has_address = any(port.name not in ("http", "http-admin", "grpc") for port in ports) or self.chance(85)
        exported = "" if self.chance(85) else self.random.choice([".", self._place(), f".,{ROOT}"])
        address = f"10.96.0.{number}" if has_address else HEADLESS
        return Service(name, space, address, tuple(sorted(ports)), exported, "", self.random.randrange(8))

    def _service_beside(self, other: Service) -> Service:
        """Another Service of the same pods, with another protocol for one of their ports."""
        name = self.random.choice(["http-beside", "tcp-beside", "beside"])
        ports = (Port(name, self._number(6000, 6001), other.ports[0].target), Port("http-more", 8082, 8082))
        return Service("beside", other.namespace, "10.96.0.99", ports, "", other.name, self.random.randrange(8))

    def _pods(self) -> Iterator[Pod]:
        number = 0
        own = [service for service in self.services if not service.other_app]
        wanted = [(service.name, service.namespace, version) for service in own for version in SUBSETS]
        for name, space, version in (*wanted, ("web", self._home(), "v1")):
            if name != "web" and version == "v2" and self.chance(70):
                continue
            number += 1
            labels = {"app": name, "version": version}
            yield Pod(f"{name}-{version}", space, labels, f"10.0.0.{number}", self.chance(80) or name == "web")

    def _mesh_config(self) -> Json:
        made: Json = {}
        if self.chance(15):
            made["outboundTrafficPolicy"] = {"mode": "REGISTRY_ONLY"}
        if self.chance(15):
            made["enableAutoMtls"] = False
        if self.chance(10):
            made["rootNamespace"] = self.random.choice(self.spaces)
        if self.chance(5):
            made["defaultServiceExportTo"] = ["."]
        if self.chance(10):
            made["defaultVirtualServiceExportTo"] = ["."]
        if self.chance(10):
            made["defaultDestinationRuleExportTo"] = ["."]
        if self.chance(80):
            service = {"service": "judge.istio-system.svc.cluster.local", "port": 9000}
            made["extensionProviders"] = [{"name": PROVIDER, "envoyExtAuthzGrpc": service}]
        return made

    def _aged(self, document: Json) -> Json:
        """With a time of creation. Some are the same, and then the names decide."""
        minute = self.random.randrange(8)
        document["metadata"]["creationTimestamp"] = f"2026-01-01T00:0{minute}:00Z"
        return document

    def _place(self) -> str:
        return self.random.choice([*self.spaces, *self.spaces, ROOT])

    def _home(self) -> str:
        """The namespace of pods: now and then the root namespace."""
        return ROOT if self.chance(10) else self.random.choice(self.spaces)

    def _export(self, namespace_: str) -> list[str] | None:
        if self.chance(60):
            return None
        other = self.random.choice([space for space in (*self.spaces, ROOT) if space != namespace_])
        return self.random.choice([["*"], ["."], [other], [namespace_], [".", other]])

    def _host(self, namespace_: str, *, wildcards: bool) -> str:
        if self.outside and self.chance(15):
            return self.random.choice(self.outside)
        service = self.random.choice(self.services)
        hosts = [service.host] * 4
        if service.namespace == namespace_ or self.chance(5):
            # In another namespace a short name is another host.
            hosts += [service.name] * 3
        if wildcards:
            hosts += [f"*.{service.namespace}.{DOMAIN}"] * 2 + [f"*.{DOMAIN}", "*.local"]
        return self.random.choice(hosts)

    def _selector(self, key: str = "matchLabels") -> Json:
        app = self.random.choice([service.name for service in self.services] + ["web"])
        labels = {"app": app} if self.chance(70) else {"app": app, "version": self.random.choice(SUBSETS)}
        return {key: labels}

    # ---- traffic ----

    def _entries(self) -> Iterator[Json]:
        for number, host in enumerate(self.random.sample(EXTERNAL, self._number(0, 0, 1, 2)), start=1):
            self.outside.append(host)
            ports = [
                {"number": 80, "name": "http", "protocol": "HTTP"},
                {"number": 443, "name": "tls", "protocol": "TLS"},
                {"number": 3306, "name": "tcp", "protocol": "TCP"},
            ]
            space = self._place()
            spec: Json = {
                "hosts": [host],
                "ports": self.random.sample(ports, self._number(1, 2)),
                "location": self.random.choice(["MESH_EXTERNAL", "MESH_EXTERNAL", "MESH_INTERNAL"]),
                "resolution": self.random.choice(["DNS", "STATIC"]),
                "addresses": [f"240.0.0.{number}"],
            }
            if spec["resolution"] == "STATIC":
                spec["endpoints"] = [{"address": f"192.0.2.{number}"}]
            yield self._exported(thing(NETWORKING, "ServiceEntry", f"entry-{number}", space, spec=spec))
        if self.chance(15):
            ports = [{"number": 80, "name": "http", "protocol": "HTTP"}]
            wild: Json = {
                "hosts": ["*.wild.example"],
                "ports": ports,
                "location": "MESH_EXTERNAL",
                "resolution": "NONE",
            }
            yield self._exported(thing(NETWORKING, "ServiceEntry", "wild", self._place(), spec=wild))
        if self.chance(15):
            ports = [{"number": 8083, "name": "grpc", "protocol": "GRPC", "targetPort": 8084}]
            inside: Json = {
                "hosts": ["inside.example"],
                "addresses": ["240.0.0.9"],
                "ports": ports,
                "location": "MESH_INTERNAL",
                "resolution": "STATIC",
                "workloadSelector": self._selector("labels"),
            }
            self.outside.append("inside.example")
            yield self._exported(thing(NETWORKING, "ServiceEntry", "inside", self._place(), spec=inside))

    def _exported(self, document: Json) -> Json:
        export = self._export(document["metadata"]["namespace"])
        if export is not None:
            document["spec"]["exportTo"] = export
        return document

    def _virtual_service(self, number: int) -> Json:
        name, space = f"route-{number}", self._place()
        hosts = sorted({self._host(space, wildcards=True) for _ in range(self._number(1, 1, 2))})
        if self.chance(8):
            hosts = ["ghost.example.com"]
        spec: Json = {"hosts": _without_overlap(hosts)}
        if self.chance(30):
            choices = [["mesh"], ["gate"], ["mesh", "gate"], [f"{ROOT}/gate"]]
            spec["gateways"] = self.random.choice(choices)
        if self.chance(85):
            spec["http"] = [self._http(f"{name}-{n}", space) for n in range(self._number(1, 1, 2, 3))]
        if self.chance(25) or "http" not in spec:
            spec["tcp"] = [self._tcp(space) for _ in range(self._number(1, 2))]
        exact = [host for host in spec["hosts"] if "*" not in host and "." in host]
        if exact and self.chance(25):
            match = [{"port": 443, "sniHosts": [self.random.choice(exact)]}]
            spec["tls"] = [{"match": match, "route": [{"destination": self._destination(space)}]}]
        return self._exported(thing(NETWORKING, "VirtualService", name, space, spec=spec))

    def _delegation(self) -> Iterator[Json]:
        """A VirtualService that leaves its routes to another one."""
        space, other = self._place(), self._place()
        match = [{"uri": {"prefix": self.random.choice(["/a", "/"])}}]
        delegating = {"match": match, "delegate": {"name": "delegate", "namespace": other}}
        spec: Json = {"hosts": [self._host(space, wildcards=False)], "http": [delegating, self._http("own", space)]}
        yield self._exported(thing(NETWORKING, "VirtualService", "delegating", space, spec=spec))
        rules = [self._http(f"delegate-{number}", other) for number in range(self._number(1, 2))]
        for rule in rules:
            for part in rule.get("match", ()):
                # Istio refuses these in a delegate.
                part.pop("gateways", None)
                part.setdefault("uri", {"prefix": "/a"})
        yield self._exported(thing(NETWORKING, "VirtualService", "delegate", other, spec={"http": rules}))

    def _destination(self, space: str) -> Json:
        service = self.random.choice(self.services)
        host = service.name if service.namespace == space and self.chance(50) else service.host
        made: Json = {"host": host}
        if self.chance(75):
            made["port"] = {"number": self.random.choice(service.ports).number}
        if self.chance(40):
            made["subset"] = self.random.choice(SUBSETS)
        return made

    def _http(self, name: str, space: str) -> Json:
        made: Json = {"name": name}
        if self.chance(60):
            made["match"] = [self._match() for _ in range(self._number(1, 1, 2))]
        if self.chance(10):
            made["redirect"] = {"uri": "/elsewhere"}
            return made
        if self.chance(15):
            # Often what Istio does without it.
            made["route"] = [{"destination": {"host": self.random.choice(self.services).host}}]
            return made
        first, second = self._destination(space), self._destination(space)
        made["route"] = [{"destination": first}]
        if self.chance(25):
            made["route"] = [{"destination": first, "weight": 60}, {"destination": second, "weight": 40}]
        if self.chance(40):
            made["timeout"] = f"{self._number(1, 2, 3)}s"
        if self.chance(40):
            made["retries"] = self.random.choice([{"attempts": 0}, {"attempts": 1}, {"attempts": 4, "retryOn": "5xx"}])
        if self.chance(15):
            made["fault"] = {"abort": {"percentage": {"value": 10.0}, "httpStatus": 503}}
        if self.chance(15):
            made["mirror"] = second
        return made

    def _match(self) -> Json:
        made: Json = {}
        if self.chance(70):
            prefixes = [{"prefix": path} for path in ("/a", "/b", "/")] * 3
            made["uri"] = self.random.choice([*prefixes, {"regex": ".*"}, {"exact": "/"}, {"regex": "/a.*"}])
        if self.chance(10):
            made["method"] = {"exact": "GET"}
        if self.chance(5):
            made["ignoreUriCase"] = True
        if self.chance(25):
            made["sourceLabels"] = self._selector()["matchLabels"]
        if self.chance(15):
            made["sourceNamespace"] = self._place()
        if self.chance(20):
            made["port"] = self.random.choice((80, 8081, 9000))
        if self.chance(10):
            made["gateways"] = [self.random.choice(["mesh", "gate"])]
        return made or {"headers": {"x-tier": {"exact": "gold"}}}

    def _tcp(self, space: str) -> Json:
        made: Json = {"route": [{"destination": self._destination(space)}]}
        match: Json = {}
        if self.chance(50):
            match["port"] = self.random.choice((5432, 7000, 3306))
        if self.chance(30):
            match["sourceLabels"] = self._selector()["matchLabels"]
        if match:
            made["match"] = [match]
        return made

    def _destination_rule(self, number: int) -> Json:
        name, space = f"rule-{number}", self._place()
        spec: Json = {"host": self._host(space, wildcards=True)}
        if self.chance(75):
            spec["trafficPolicy"] = self._traffic_policy(ports=True)
        if self.chance(45):
            names = self.random.sample(SUBSETS, self._number(1, 2))
            spec["subsets"] = [self._subset(name) for name in names]
        if self.chance(20):
            spec["workloadSelector"] = self._selector()
            return thing(NETWORKING, "DestinationRule", name, space, spec=spec)
        return self._exported(thing(NETWORKING, "DestinationRule", name, space, spec=spec))

    def _subset(self, name: str) -> Json:
        made: Json = {"name": name, "labels": {"version": name}}
        if self.chance(85):
            made["trafficPolicy"] = self._traffic_policy(ports=self.chance(30))
        return made

    def _traffic_policy(self, *, ports: bool = False) -> Json:
        self.mark += 1
        made: Json = {"connectionPool": {"tcp": {"maxConnections": self.mark}}}
        if self.chance(30):
            made["tls"] = {"mode": self.random.choice(["ISTIO_MUTUAL", "DISABLE", "SIMPLE"])}
        if self.chance(20):
            made["loadBalancer"] = {"simple": "ROUND_ROBIN"}
        if self.chance(25):
            made["outlierDetection"] = {"consecutive5xxErrors": 3}
        if ports and self.chance(20):
            settings = self._traffic_policy()
            port = self.random.choice(self.random.choice(self.services).ports)
            made["portLevelSettings"] = [{"port": {"number": port.number}, **settings}]
        return made

    # ---- security ----

    def _peer_authentication(self, number: int) -> Json:
        modes = ["STRICT", "STRICT", "PERMISSIVE", "DISABLE", "UNSET"]
        spec: Json = {"mtls": {"mode": self.random.choice(modes)}} if self.chance(85) else {}
        if self.chance(45):
            spec["selector"] = self._selector()
            if self.chance(50):
                ports = self.random.sample([8080, 80, 9000, 5432, 9999], self._number(1, 2))
                spec["portLevelMtls"] = {str(port): {"mode": self.random.choice(modes)} for port in ports}
        return thing(SECURITY, "PeerAuthentication", f"peers-{number}", self._place(), spec=spec)

    def _authorization(self, number: int) -> Json:
        spec: Json = {"action": self.random.choice(["ALLOW", "ALLOW", "DENY", "DENY", "AUDIT", "CUSTOM"])}
        if self.chance(50):
            spec["selector"] = self._selector()
        by_identity = spec["action"] != "CUSTOM"
        spec["rules"] = [self._rule(by_identity=by_identity) for _ in range(self._number(1, 1, 2))]
        if spec["action"] == "ALLOW" and self.chance(30):
            spec["rules"] = self.random.choice([[{}], []])
        if spec["action"] == "AUDIT" and self.chance(15):
            spec["rules"] = []
        if spec["action"] == "CUSTOM":
            spec["provider"] = {"name": PROVIDER if self.chance(80) else "absent"}
        metadata = (
            {"annotations": {"istio.io/dry-run": "true"}}
            if self.chance(15) and spec["action"] in ("ALLOW", "DENY")
            else {}
        )
        return thing(SECURITY, "AuthorizationPolicy", f"guard-{number}", self._place(), metadata=metadata, spec=spec)

    def _rule(self, *, by_identity: bool) -> Json:
        made: Json = {}
        if self.chance(50):
            sources: list[Json] = [
                {"ipBlocks": ["10.0.0.0/24"]},
                {"principals": ["cluster.local/ns/shop/sa/web"]},
                {"namespaces": ["shop"]},
                {"requestPrincipals": ["*"]},
                {"notNamespaces": ["bank"], "principals": ["*"]},
            ]
            made["from"] = [{"source": self.random.choice(sources if by_identity else sources[:1])}]
        if self.chance(60):
            operations: list[Json] = [
                {"ports": ["8080"]},
                {"methods": ["GET"]},
                {"paths": ["/a*"], "ports": ["8080", "5432"]},
                {"notPaths": ["/a"]},
                {"hosts": ["cart"]},
            ]
            made["to"] = [{"operation": one} for one in self.random.sample(operations, self._number(1, 1, 2))]
        if self.chance(20) or not made:
            keys = ["request.headers[x-tier]", "source.ip", "destination.port", "source.principal"]
            key = self.random.choice(keys if by_identity else keys[:3])
            values = {"source.ip": "10.0.0.1", "destination.port": "8080"}
            made["when"] = [{"key": key, "values": [values.get(key, "gold")]}]
        return made

    def _tokens(self, number: int) -> Json:
        """A RequestAuthentication whose issuer has its name."""
        name, space = f"tokens-{number}", self._place()
        spec: Json = {"jwtRules": [{"issuer": f"{space}/{name}", "jwks": '{"keys":[]}'}]}
        if self.chance(50):
            spec["selector"] = self._selector()
        return thing(SECURITY, "RequestAuthentication", name, space, spec=spec)

    def _filter(self, number: int) -> Json:
        """An EnvoyFilter that adds a filter with its name."""
        name, space = f"filter-{number}", self._place()
        value = {
            "name": f"{FILTER}{space}/{name}",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer",
                "max_request_bytes": 1000,
            },
        }
        chain = {"filterChain": {"filter": {"name": "envoy.filters.network.http_connection_manager"}}}
        patch = {
            "applyTo": "HTTP_FILTER",
            "match": {"context": self.random.choice(["SIDECAR_INBOUND", "ANY", "GATEWAY"]), "listener": chain},
            "patch": {"operation": "INSERT_FIRST", "value": value},
        }
        spec: Json = {"configPatches": [patch]}
        if self.chance(50):
            spec["workloadSelector"] = self._selector("labels")
        return thing("networking.istio.io/v1alpha3", "EnvoyFilter", name, space, spec=spec)

    def _sidecar(self, number: int) -> Json:
        spec: Json = {}
        space = self._place()
        if self.chance(50) and space != ROOT:
            spec["workloadSelector"] = self._selector("labels")
        if self.chance(85):
            hosts = ["./*", "*/*", "~/*", f"{self._place()}/*", f"*/{self.random.choice(self.services).host}"]
            hosts += [f"~{space}/{self.random.choice(self.services).host}"]
            spec["egress"] = [{"hosts": self.random.sample(hosts, self._number(1, 2))}]
            if self.chance(25):
                port = {"number": self.random.choice((80, 9000)), "protocol": "HTTP", "name": "http"}
                spec["egress"].insert(0, {"port": port, "hosts": self.random.sample(hosts, self._number(1, 2))})
        if self.chance(30) or "egress" not in spec:
            spec["outboundTrafficPolicy"] = {"mode": self.random.choice(["REGISTRY_ONLY", "ALLOW_ANY"])}
        return thing(NETWORKING, "Sidecar", f"scope-{number}", space, spec=spec)


def _without_overlap(hosts: list[str]) -> list[str]:
    """Istio refuses a VirtualService of which one host covers another one."""
    return hosts if not any("*" in host for host in hosts) else hosts[:1]
