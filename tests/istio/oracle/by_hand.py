"""Small meshes with what is in force in each, written down from Istio's documents and not from its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tests.istio.objects import NETWORKING, SECURITY, Json, thing
from tests.istio.oracle.answers import HTTP, INBOUND, OUTBOUND, TCP, Answer, Held, Place, Rule
from tests.istio.oracle.meshes import HEADLESS, ROOT, Case, Pod, Port, Service, case

WEB: Final = Port("http", 80, 8080)
DATA: Final = Port("tcp", 5432, 5432)
CART: Final = Service("cart", "shop", "10.96.0.1", (WEB,))
STOCK: Final = Service("stock", "bank", "10.96.0.2", (WEB, DATA))
SERVICES: Final = (CART, STOCK)
PODS: Final = tuple(
    Pod(name, space, {"app": app}, f"10.0.0.{number}", has_sidecar)
    for number, (name, app, space, has_sidecar) in enumerate(
        [("cart-1", "cart", "shop", True), ("stock-1", "stock", "bank", True), ("old-1", "old", "shop", False)], start=1
    )
)
CART_POD: Final = "shop/cart-1"
STOCK_POD: Final = "bank/stock-1"
PROTOCOLS: Final = {"http": (HTTP,), "grpc": (HTTP,), "tcp": (TCP,), "https": (TCP,), "main": (HTTP, TCP)}


class Expected(NamedTuple):
    case: Case
    answer: Answer


def to_cart(workload: str) -> Place:
    return Place(workload, OUTBOUND, CART.host, 80, HTTP)


def to_stock(workload: str, port: int = 80, protocol: str = HTTP) -> Place:
    return Place(workload, OUTBOUND, STOCK.host, port, protocol)


def into(workload: str, port: int = 8080, protocol: str = HTTP) -> Place:
    return Place(workload, INBOUND, "", port, protocol)


def bare(of: Case) -> dict[Place, Held]:
    """What is in force where there is no resource: Istio's mutual TLS alone."""
    made = {}
    for pod in of.pods:
        if not pod.has_sidecar:
            continue
        for service in of.services:
            for port in service.ports:
                for protocol in PROTOCOLS[port.name]:
                    made[Place(pod.workload, OUTBOUND, service.host, port.number, protocol)] = Held(tls="auto")
                    if service.namespace == pod.namespace and service.app == pod.labels["app"]:
                        made[into(pod.workload, port.target, protocol)] = inside()
        for protocol in (HTTP, TCP):
            made[into(pod.workload, 0, protocol)] = inside()
    return made


def mesh(
    name: str,
    changes: Mapping[Place, Held | None],
    *istio: Json,
    closed: tuple[str, ...] = (),
    services: tuple[Service, ...] = SERVICES,
    pods: tuple[Pod, ...] = PODS,
    **config: Any,
) -> Expected:
    """A mesh that differs from one without resources at the places that are given; None stands for no such place."""
    of = case(name, services, pods, *istio, **config)
    places = {place: held for place, held in {**bare(of), **changes}.items() if held is not None}
    return Expected(of, Answer(places, frozenset(closed)))


def resource(kind: str, name: str, space: str, minute: int = 0, /, **spec: Any) -> Json:
    group = SECURITY if kind in ("PeerAuthentication", "AuthorizationPolicy") else NETWORKING
    created = {"creationTimestamp": f"2026-01-01T00:0{minute}:00Z"}
    return thing(group, kind, name, space, metadata=created, spec=spec)


def route(name: str, host: str = "cart.shop.svc.cluster.local", **rule: Any) -> Json:
    return {"name": name, "route": [{"destination": {"host": host, **rule.pop("destination", {})}}], **rule}


def limit(number: int) -> Json:
    return {"connectionPool": {"tcp": {"maxConnections": number}}}


def held(*resources: str, routes: tuple[str, ...] = (), tls: str = "auto") -> Held:
    return Held(frozenset(resources), routes, tls=tls)


def inside(*resources: str, mode: str = "PERMISSIVE") -> Held:
    return Held(frozenset(resources), mode=mode)


def guarded(action: str, *rules: Rule) -> Held:
    return Held(rules=frozenset(rules), actions=frozenset((action,)), mode="PERMISSIVE")


def _nothing() -> Expected:
    return mesh("nothing", {})


def _routes_for_one_namespace() -> Expected:
    """A VirtualService that its namespace alone sees wins there over an older public one."""
    return mesh(
        "routes for one namespace",
        {
            to_cart(CART_POD): held("VirtualService shop/public", routes=("public",)),
            to_cart(STOCK_POD): held("VirtualService bank/own", routes=("own",)),
        },
        resource("VirtualService", "public", "shop", 1, hosts=[CART.host], http=[route("public", timeout="1s")]),
        resource(
            "VirtualService", "own", "bank", 5, hosts=[CART.host], exportTo=["."], http=[route("own", timeout="2s")]
        ),
    )


def _older_routes() -> Expected:
    """Of two public VirtualServices of a host the older one is in force, up to its route without a match."""
    older = [route("first", match=[{"uri": {"prefix": "/a"}}]), route("second"), route("third", timeout="1s")]
    here = held("VirtualService shop/z-older", routes=("first", "second"))
    return mesh(
        "older routes",
        {to_cart(CART_POD): here, to_cart(STOCK_POD): here},
        resource("VirtualService", "a-younger", "shop", 2, hosts=["cart"], http=[route("younger")]),
        resource("VirtualService", "z-older", "shop", 1, hosts=["cart"], http=older),
    )


def _routes_of_gateways() -> Expected:
    """No sidecar has the routes of a VirtualService, or of a match, that names gateways only."""
    here = held("VirtualService shop/both", routes=("all",))
    at_gate = route("at-gate", match=[{"gateways": ["gate"]}])
    return mesh(
        "routes of gateways",
        {to_stock(CART_POD): here, to_stock(STOCK_POD): here},
        resource("VirtualService", "gate-only", "shop", 0, hosts=[CART.host], gateways=["gate"], http=[route("gate")]),
        resource(
            "VirtualService",
            "both",
            "shop",
            1,
            hosts=[STOCK.host],
            gateways=["gate", "mesh"],
            http=[at_gate, route("all", timeout="1s")],
        ),
    )


def _rules_of_clients() -> Expected:
    """The first namespace of client, service and root with any matching DestinationRule wins alone."""
    wide = "DestinationRule bank/wide"
    return mesh(
        "rules of clients",
        {
            to_cart(STOCK_POD): held(wide),
            to_cart(CART_POD): held("DestinationRule shop/exact"),
            into(CART_POD): inside("DestinationRule shop/exact"),
            to_stock(STOCK_POD): held(wide),
            to_stock(STOCK_POD, 5432, TCP): held(wide),
            to_stock(CART_POD): held("DestinationRule bank/wide"),
            to_stock(CART_POD, 5432, TCP): held("DestinationRule bank/wide"),
            into(STOCK_POD): inside(wide),
            into(STOCK_POD, 5432, TCP): inside(wide),
        },
        resource("DestinationRule", "wide", "bank", 3, host="*.local", trafficPolicy=limit(11)),
        resource("DestinationRule", "exact", "shop", 1, host="cart", trafficPolicy=limit(12)),
        resource("DestinationRule", "root", ROOT, 0, host="*.local", trafficPolicy=limit(13)),
    )


def _rules_together() -> Expected:
    """Two DestinationRules of a host in one namespace merge: the older traffic policy, and the subsets of both."""
    rules = ("DestinationRule shop/older", "DestinationRule shop/younger")
    routed = Held(frozenset((*rules, "VirtualService shop/cart")), ("v2",), tls="auto")
    subset = {"name": "v2", "labels": {"version": "v2"}, "trafficPolicy": limit(23)}
    unused = {"name": "v3", "labels": {"version": "v3"}, "trafficPolicy": limit(24)}
    return mesh(
        "rules together",
        {
            to_cart(CART_POD): routed,
            to_cart(STOCK_POD): routed,
            into(CART_POD): inside("DestinationRule shop/older"),
        },
        resource("DestinationRule", "older", "shop", 1, host="cart", trafficPolicy=limit(21)),
        resource("DestinationRule", "younger", "shop", 2, host="cart", trafficPolicy=limit(22), subsets=[subset]),
        resource("DestinationRule", "unused", "shop", 3, host="cart", trafficPolicy=limit(25), subsets=[unused]),
        resource("VirtualService", "cart", "shop", hosts=["cart"], http=[route("v2", destination={"subset": "v2"})]),
    )


def _peers() -> Expected:
    """A port wins over its workload, that over its namespace, that over the mesh. In the root a selector is void."""
    strict = {"mtls": {"mode": "STRICT"}}
    selector = {"matchLabels": {"app": "stock"}}
    ports = {"8080": {"mode": "DISABLE"}}
    return mesh(
        "peers",
        {
            into(CART_POD): inside(mode="PERMISSIVE"),
            into(STOCK_POD): inside(mode="DISABLE"),
            into(STOCK_POD, 5432, TCP): inside(mode="STRICT"),
            into(STOCK_POD, 0): inside(mode="STRICT"),
            into(STOCK_POD, 0, TCP): inside(mode="STRICT"),
        },
        resource("PeerAuthentication", "mesh", ROOT, 0, **strict),
        resource("PeerAuthentication", "void", ROOT, 0, selector=selector, mtls={"mode": "DISABLE"}),
        resource("PeerAuthentication", "space", "shop", 0, mtls={"mode": "PERMISSIVE"}),
        resource("PeerAuthentication", "port", "bank", 0, selector=selector, portLevelMtls=ports),
    )


def _guards_on_tcp() -> Expected:
    """On TCP an ALLOW loses a rule with fields of HTTP, and a DENY loses such fields and refuses more."""
    methods = {"to": [{"operation": {"methods": ["GET"], "ports": ["8080", "5432"]}}]}
    ports = {"to": [{"operation": {"ports": ["5432"]}}]}
    allowed = Rule("ALLOW", f"{ROOT}/all", 1, False)

    def both(*, on_http: bool) -> Held:
        rules = {allowed, Rule("DENY", "bank/deny", 0, on_http)}
        if on_http:
            rules.add(Rule("ALLOW", f"{ROOT}/all", 0, True))
        return Held(rules=frozenset(rules), actions=frozenset(("ALLOW", "DENY")), mode="PERMISSIVE")

    on_http = guarded("ALLOW", allowed, Rule("ALLOW", f"{ROOT}/all", 0, True))
    return mesh(
        "guards on tcp",
        {
            into(CART_POD): on_http,
            into(CART_POD, 0): on_http,
            into(CART_POD, 0, TCP): guarded("ALLOW", allowed),
            into(STOCK_POD): both(on_http=True),
            into(STOCK_POD, 0): both(on_http=True),
            into(STOCK_POD, 5432, TCP): both(on_http=False),
            into(STOCK_POD, 0, TCP): both(on_http=False),
        },
        resource("AuthorizationPolicy", "all", ROOT, 0, action="ALLOW", rules=[methods, ports]),
        resource("AuthorizationPolicy", "deny", "bank", 0, action="DENY", rules=[methods]),
    )


def _a_guard_without_rules() -> Expected:
    """An ALLOW without rules refuses everything, here for one workload."""
    closed = Held(actions=frozenset(("ALLOW",)), mode="PERMISSIVE")
    selector = {"matchLabels": {"app": "cart"}}
    return mesh(
        "a guard without rules",
        {into(CART_POD): closed, into(CART_POD, 0): closed, into(CART_POD, 0, TCP): closed},
        resource("AuthorizationPolicy", "none", "shop", 0, selector=selector),
        resource("AuthorizationPolicy", "elsewhere", "bank", 0, selector=selector),
    )


def _scope() -> Expected:
    """A Sidecar hides the hosts that it does not name, and refuses unknown destinations."""
    return mesh(
        "scope",
        {to_stock(CART_POD): None, to_stock(CART_POD, 5432, TCP): None},
        resource(
            "Sidecar",
            "own",
            "shop",
            0,
            egress=[{"hosts": ["./*"]}],
            outboundTrafficPolicy={"mode": "REGISTRY_ONLY"},
        ),
        closed=(CART_POD,),
    )


def _an_entry_of_one_namespace() -> Expected:
    """A ServiceEntry that is exported to its namespace is a host there, with the routes that are written for it."""
    host = "api.example.com"
    here = Held(frozenset(("ServiceEntry bank/api", "VirtualService bank/api")), ("slow",), tls="")
    return mesh(
        "an entry of one namespace",
        {Place(STOCK_POD, OUTBOUND, host, 80, HTTP): here},
        resource(
            "ServiceEntry",
            "api",
            "bank",
            0,
            hosts=[host],
            ports=[{"number": 80, "name": "http", "protocol": "HTTP"}],
            resolution="DNS",
            location="MESH_EXTERNAL",
            exportTo=["."],
        ),
        resource(
            "VirtualService", "api", "bank", 0, hosts=[host], exportTo=["."], http=[route("slow", host, timeout="9s")]
        ),
    )


def _routes_of_no_service() -> Expected:
    """Routes of a host without a Service are in force for requests to port 80."""
    here = Held(frozenset(("VirtualService shop/ghost",)), ("ghost",), tls="")
    ghost = "ghost.example.com"
    return mesh(
        "routes of no service",
        {
            Place(CART_POD, OUTBOUND, ghost, 80, HTTP): here,
            Place(STOCK_POD, OUTBOUND, ghost, 80, HTTP): here,
        },
        resource("VirtualService", "ghost", "shop", 0, hosts=[ghost], http=[route("ghost")]),
    )


# ---- gateways and machines ----

GATE: Final = Service("gate", ROOT, "10.96.0.3", (WEB,))
GATE_POD: Final = Pod("gate-1", ROOT, {"app": "gate"}, "10.0.0.9", False, is_gateway=True)
API: Final = "api.example.com"


def gateway(name: str, host: str) -> Json:
    server = {"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": [host]}
    return resource("Gateway", name, ROOT, 0, selector={"app": "gate"}, servers=[server])


def at_gate(name: str, changes: Mapping[Place, Held | None], *istio: Json) -> Expected:
    return mesh(name, changes, *istio, services=(*SERVICES, GATE), pods=(*PODS, GATE_POD))


def to_gate(workload: str) -> Place:
    return Place(workload, OUTBOUND, GATE.host, 80, HTTP)


def subset(name: str, number: int) -> Json:
    return {"name": name, "labels": {"version": name}, "trafficPolicy": limit(number)}


def _an_ingress_gateway() -> Expected:
    """Routes of a gateway, and the subset to which they alone lead, do nothing at sidecars."""
    destination = {"subset": "v2"}
    return at_gate(
        "an ingress gateway",
        {},
        gateway("edge", "shop.example.com"),
        resource(
            "VirtualService",
            "edge",
            "shop",
            0,
            hosts=["shop.example.com"],
            gateways=[f"{ROOT}/edge"],
            http=[route("at-edge", destination=destination, timeout="3s")],
        ),
        resource("DestinationRule", "cart", "shop", 0, host="cart", subsets=[subset("v2", 51), subset("v3", 52)]),
    )


def _an_egress_gateway() -> Expected:
    """One VirtualService leads sidecars to the gateway, and the gateway to the host. The subset of the gateway is that
    of clients in the namespace of its DestinationRule."""
    through = Held(frozenset(("ServiceEntry shop/api", "VirtualService shop/through")), ("to-gate",))
    return at_gate(
        "an egress gateway",
        {
            Place(CART_POD, OUTBOUND, API, 80, HTTP): through,
            Place(STOCK_POD, OUTBOUND, API, 80, HTTP): through,
            to_gate(CART_POD): held("DestinationRule shop/gate"),
        },
        gateway("out", API),
        resource(
            "ServiceEntry",
            "api",
            "shop",
            0,
            hosts=[API],
            ports=[{"number": 80, "name": "http", "protocol": "HTTP"}],
            resolution="DNS",
            location="MESH_EXTERNAL",
        ),
        resource(
            "VirtualService",
            "through",
            "shop",
            0,
            hosts=[API],
            gateways=["mesh", f"{ROOT}/out"],
            http=[
                route("to-gate", GATE.host, match=[{"gateways": ["mesh"], "port": 80}], destination={"subset": "v1"}),
                route("to-api", API, match=[{"gateways": [f"{ROOT}/out"], "port": 80}]),
            ],
        ),
        resource("DestinationRule", "gate", "shop", 0, host=GATE.host, subsets=[subset("v1", 53)]),
    )


def _an_entry_for_pods() -> Expected:
    """A ServiceEntry that selects pods is another host of theirs, with a port of its own at inbound."""
    host = "cart.inside"
    resources = ("ServiceEntry shop/inside", "VirtualService shop/inside", "DestinationRule shop/inside")
    here = held(*resources, routes=("slow",))
    without_port = held("VirtualService shop/inside", routes=("slow",), tls="")
    return mesh(
        "an entry for pods",
        {
            Place(CART_POD, OUTBOUND, host, 9090, HTTP): here,
            Place(STOCK_POD, OUTBOUND, host, 9090, HTTP): here,
            # At port 80, which the entry does not have, the routes are those of a host that is none of the mesh.
            Place(CART_POD, OUTBOUND, host, 80, HTTP): without_port,
            Place(STOCK_POD, OUTBOUND, host, 80, HTTP): without_port,
            into(CART_POD, 8085): inside("DestinationRule shop/inside"),
        },
        resource(
            "ServiceEntry",
            "inside",
            "shop",
            0,
            hosts=[host],
            ports=[{"number": 9090, "name": "http", "protocol": "HTTP", "targetPort": 8085}],
            resolution="STATIC",
            location="MESH_INTERNAL",
            workloadSelector={"labels": {"app": "cart"}},
        ),
        resource("VirtualService", "inside", "shop", 0, hosts=[host], http=[route("slow", host, timeout="4s")]),
        resource("DestinationRule", "inside", "shop", 0, host=host, trafficPolicy=limit(54)),
    )


def machine(mode: str = "", **entry: str) -> Json:
    labels = {"app": "cart", **({"security.istio.io/tlsMode": mode} if mode else {})}
    return resource("WorkloadEntry", "vm", "shop", 0, address="192.0.2.7", labels=labels, **entry)


def _a_machine(name: str, tls: str, of: Json) -> Expected:
    """A WorkloadEntry is an endpoint of a Service that selects it. A client that goes to the address which it was given
    has one TLS for all endpoints: that of the proxies, if all have one."""
    passing = {"loadBalancer": {"simple": "PASSTHROUGH"}}
    return mesh(
        name,
        {to_cart(CART_POD): Held(tls=tls), to_cart(STOCK_POD): Held(tls=tls)},
        resource("DestinationRule", "pass", "shop", 0, host="cart", trafficPolicy=passing),
        of,
    )


def _a_machine_beside_a_headless_service() -> Expected:
    """A Service without an address has pods alone."""
    return mesh(
        "a machine beside a headless service",
        {to_cart(CART_POD): Held(tls="istio_mutual"), to_cart(STOCK_POD): Held(tls="istio_mutual")},
        machine(),
        services=(CART._replace(address=HEADLESS), STOCK),
    )


CASES: Final = (
    _nothing(),
    _routes_for_one_namespace(),
    _older_routes(),
    _routes_of_gateways(),
    _rules_of_clients(),
    _rules_together(),
    _peers(),
    _guards_on_tcp(),
    _a_guard_without_rules(),
    _scope(),
    _an_entry_of_one_namespace(),
    _routes_of_no_service(),
    _an_ingress_gateway(),
    _an_egress_gateway(),
    _an_entry_for_pods(),
    _a_machine("a machine without a proxy", "", machine()),
    _a_machine("a machine with a proxy", "istio_mutual", machine("istio")),
    _a_machine("a machine with a service account", "istio_mutual", machine(serviceAccount="vm")),
    _a_machine("a machine whose label goes before its account", "", machine("disabled", serviceAccount="vm")),
    _a_machine_beside_a_headless_service(),
)
