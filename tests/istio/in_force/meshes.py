"""Small meshes for the tests of the model, and what is in force in them, as lines."""

from __future__ import annotations

from typing import Any

from admc.istio.in_force.calls import EVERY_CALL, Calls
from admc.istio.in_force.judge import InForce, in_force
from admc.istio.in_force.unused import unused
from admc.istio.mesh.model import Mesh
from tests.istio.objects import NETWORKING, SECURITY, Json, deployment, mesh_of, thing
from tests.istio.objects import labelled as namespace_with

TELEMETRY = "telemetry.istio.io/v1"


def injected(*names: str) -> tuple[Json, ...]:
    return tuple(namespace_with(name, {"istio-injection": "enabled"}) for name in names)


def app(name: str, space: str = "shop", /, *ports: Json, selector: Json | None = None, **template: Any) -> list[Json]:
    """A Deployment with its Service."""
    spec = {"selector": selector or {"app": name}, "ports": list(ports) or [port(80)]}
    return [deployment(name, space, **template), thing("v1", "Service", name, space, spec=spec)]


def port(number: int, name: str = "http", **more: Any) -> Json:
    return {"port": number, "name": name, **more}


def virtual_service(name: str, space: str = "shop", /, *, created: str | None = None, **spec: Any) -> Json:
    return resource(NETWORKING, "VirtualService", name, space, created, spec)


def destination_rule(name: str, space: str = "shop", /, *, created: str | None = None, **spec: Any) -> Json:
    return resource(NETWORKING, "DestinationRule", name, space, created, spec)


def peer_authentication(name: str, space: str = "shop", /, *, created: str | None = None, **spec: Any) -> Json:
    return resource(SECURITY, "PeerAuthentication", name, space, created, spec)


def authorization(name: str, space: str = "shop", /, *, created: str | None = None, **spec: Any) -> Json:
    return resource(SECURITY, "AuthorizationPolicy", name, space, created, spec)


def sidecar(name: str, space: str = "shop", /, *, created: str | None = None, **spec: Any) -> Json:
    return resource(NETWORKING, "Sidecar", name, space, created, spec)


def telemetry(name: str, space: str = "shop", /, *, created: str | None = None, **spec: Any) -> Json:
    return resource(TELEMETRY, "Telemetry", name, space, created, spec)


def entry(name: str, space: str = "shop", /, **spec: Any) -> Json:
    return resource(NETWORKING, "ServiceEntry", name, space, None, spec)


def resource(version: str, kind: str, name: str, space: str, created: str | None, spec: Json) -> Json:
    metadata = {} if created is None else {"creationTimestamp": created}
    return thing(version, kind, name, space, metadata=metadata, spec=spec)


def to(host: str, **more: Any) -> Json:
    return {"destination": {"host": host, **more}}


def mesh(*documents: Json) -> Mesh:
    made, findings = mesh_of(*documents)
    assert findings == []
    return made


def judged(*documents: Json, calls: Calls = EVERY_CALL) -> tuple[Mesh, InForce]:
    made = mesh(*documents)
    return made, in_force(made, calls)


def lines(*documents: Json, calls: Calls = EVERY_CALL, kind: str = "") -> set[str]:
    """Each effect: `cart> pay:80 VirtualService/v a route`, `cart< :8080 ...` for inbound."""
    made = set()
    for sidecar in judged(*documents, calls=calls)[1].sidecars:
        for effect in sidecar.effects:
            of = effect.resource.object
            if kind in ("", of.kind):
                arrow = {None: "=", "inbound": "<", "outbound": ">"}[effect.direction]
                host = "" if effect.peer is None else " " + effect.peer.removesuffix(".svc.cluster.local")
                number = "" if effect.port is None else f":{effect.port}"
                name = sidecar.workload.name
                made.add(f"{name}{arrow}{host}{number} {of.name}: {effect.what} ({int(effect.layer)})")
    return made


def unused_lines(*documents: Json, calls: Calls = EVERY_CALL) -> set[str]:
    made, force = judged(*documents, calls=calls)
    return {
        f"{it.resource.object.name}{''.join(f'/{part}' for part in it.resource.where)}: {it.cause.name}"
        + ("" if it.by is None else f" {it.by.object.name}")
        for it in unused(made, force)
    }
