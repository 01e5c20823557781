"""AuthorizationPolicy: which rules a workload enforces, and what a proxy has to read for them.

CUSTOM, DENY and ALLOW refuse requests, AUDIT marks them. One of the root namespace holds in all namespaces. An ALLOW
without rules admits nothing; any other action without rules matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.in_force.effects import Direction, Effect, Layer, What
from admc.istio.in_force.protocols import Protocol
from admc.istio.in_force.registry import container_port
from admc.istio.in_force.selection import attached, items, mapping
from admc.istio.in_force.view import SECURITY, key_of
from admc.istio.mesh.model import Place, Workload, spec_of
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.in_force.view import View
    from admc.manifests.documents import Object

KIND: Final = "AuthorizationPolicy"
_DRY_RUN: Final = "istio.io/dry-run"
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_OF_REQUESTS: Final = frozenset(
    ("hosts", "notHosts", "methods", "notMethods", "paths", "notPaths", "requestPrincipals", "notRequestPrincipals")
)
"""Fields that only HTTP has."""
_OF_REQUEST_KEYS: Final = ("request.headers", "request.auth.")
_BY_ADDRESS: Final = frozenset(("ipBlocks", "notIpBlocks", "ports", "notPorts"))
_BY_IDENTITY: Final = frozenset(
    (
        "principals", "namespaces", "serviceAccounts", "trustDomains",
        "notPrincipals", "notNamespaces", "notServiceAccounts", "notTrustDomains",
    )
)  # fmt: skip
_IDENTITY_KEYS: Final = {
    "source.principal": "principals",
    "source.namespace": "namespaces",
    "source.serviceAccount": "serviceAccounts",
    "source.trustDomain": "trustDomains",
}
_ADDRESS_KEYS: Final = frozenset(("source.ip", "destination.ip", "destination.port"))


class Condition(NamedTuple):
    """A field of a rule, with its values."""

    name: str
    values: tuple[str, ...]
    is_negative: bool


def policies(view: View, workload: Workload) -> list[Object]:
    root = view.configuration.root
    return [it for it in view.near(SECURITY, KIND, workload) if attached(it, workload, root)]


def effects(view: View, workload: Workload) -> Iterator[Effect]:
    own = policies(view, workload)
    is_open = any(admits_all(it) for it in own)
    for manifest in own:
        what = _what(manifest, is_open=is_open)
        if what is not None:
            place = Place(manifest, ("spec",))
            yield Effect(Direction.INBOUND, None, None, place, layer(manifest), what)


def action(manifest: Object) -> str:
    return str(spec_of(manifest).get("action") or "ALLOW")


def is_dry_run(manifest: Object) -> bool:
    return at(manifest.metadata, ("annotations", _DRY_RUN)) in _TRUE


def admits_all(manifest: Object) -> bool:
    """Whether an ALLOW has a rule that every request matches: no other ALLOW matters beside it."""
    return action(manifest) == "ALLOW" and not is_dry_run(manifest) and any(not _parts(it) for it in rules(manifest))


def never_matches(manifest: Object) -> bool:
    """Whether a policy refuses nothing, since it has no rules."""
    return action(manifest) != "ALLOW" and not rules(manifest)


def rules(manifest: Object) -> list[dict[str, Any]]:
    return [mapping(rule) for rule in items(spec_of(manifest).get("rules"))]


def _parts(rule: dict[str, Any]) -> list[str]:
    return [name for name in ("from", "to", "when") if rule.get(name)]


def _what(manifest: Object, *, is_open: bool) -> What | None:
    if never_matches(manifest):
        return None
    if is_dry_run(manifest):
        return What.DRY_RUN
    return What.ALLOWED_ANYWAY if is_open and action(manifest) == "ALLOW" else What.AUTHORIZATION


def conditions(rule: dict[str, Any]) -> Iterator[Condition]:
    """The fields of a rule, those of `when` by the names of the others."""
    for part, inner in (("from", "source"), ("to", "operation")):
        for entry in items(rule.get(part)):
            for name, values in mapping(at(entry, (inner,))).items():
                if items(values):
                    yield Condition(name, tuple(map(str, values)), name.startswith("not"))
    for entry in items(rule.get("when")):
        key = str(at(entry, ("key",)))
        name = _IDENTITY_KEYS.get(key, key)
        for field in ("values", "notValues"):
            values = items(at(entry, (field,)))
            if values:
                yield Condition(name, tuple(map(str, values)), field == "notValues")


def is_by_identity(condition: Condition) -> bool:
    return condition.name in _BY_IDENTITY


def is_of_requests(condition: Condition) -> bool:
    """Whether a field can be compared with HTTP requests only."""
    return condition.name in _OF_REQUESTS or condition.name.startswith(_OF_REQUEST_KEYS)


def layer(manifest: Object) -> Layer:
    """What a proxy has to read. The proxy of a node knows ALLOW and DENY by identities, addresses and ports."""
    if action(manifest) not in ("ALLOW", "DENY") or is_dry_run(manifest):
        return Layer.REQUEST
    simple = all(
        is_by_identity(it) or it.name in _BY_ADDRESS or it.name in _ADDRESS_KEYS
        for rule in rules(manifest)
        for it in conditions(rule)
    )
    return Layer.CONNECTION if simple else Layer.REQUEST


# ---- HTTP fields at ports without HTTP ----


class Widened(NamedTuple):
    """A rule with HTTP fields at a port that has no HTTP."""

    place: Place
    is_lost: bool
    """Whether the rule is left out, as in an ALLOW; otherwise its HTTP fields are, and it holds for more."""
    port: int
    workload: Workload


def widened(view: View, workload: Workload) -> Iterator[Widened]:
    ports = _tcp_ports(view, workload)
    for manifest in policies(view, workload) if ports else ():
        if action(manifest) == "CUSTOM":
            continue
        for index, rule in enumerate(rules(manifest)):
            if not any(is_of_requests(it) for it in conditions(rule)):
                continue
            for port in ports:
                if _may_hold_at(rule, port):
                    place = Place(manifest, ("spec", "rules", index))
                    yield Widened(place, action(manifest) == "ALLOW", port, workload)


def _tcp_ports(view: View, workload: Workload) -> list[int]:
    """The ports of the pods that have no HTTP. Of several Services at a port the oldest says its protocol."""
    made: dict[int, Protocol] = {}
    for host in view.hosts_of_workload.get(key_of(workload), ()):
        for port in host.ports:
            number = container_port(workload, port.target)
            if number is not None:
                made.setdefault(number, port.protocol)
    return sorted(number for number, protocol in made.items() if protocol in (Protocol.TCP, Protocol.TLS))


def _may_hold_at(rule: dict[str, Any], port: int) -> bool:
    """Whether an operation of a rule may be one at a port."""
    operations = [mapping(at(entry, ("operation",))) for entry in items(rule.get("to"))]
    return not operations or any(
        (not items(it.get("ports")) or str(port) in map(str, items(it["ports"])))
        and str(port) not in map(str, items(it.get("notPorts")))
        for it in operations
    )
