"""Findings about what is in force: rules that mean something else than they say, and resources that do nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from admc.istio.in_force import authorization
from admc.istio.in_force.effects import Cause, Unused, What, key_of_place
from admc.istio.in_force.exports import exports_of_route
from admc.istio.in_force.view import key_of
from admc.istio.inputs.reading import diagnostic, named
from admc.istio.mesh.model import spec_of
from admc.istio.schemas.violation import Violation
from admc.manifests.places import span_of
from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from admc.istio.in_force.judge import InForce
    from admc.istio.in_force.view import WorkloadKey
    from admc.istio.mesh.model import Place, Workload
    from admc.manifests.documents import Object

_REPORTED_BEFORE: Final = frozenset((("DestinationRule", Cause.NO_HOST), ("Sidecar", Cause.OLDER_WINS)))
"""What the findings about references say already (ADM919, ADM981)."""
_MOST_NAMES: Final = 3


def findings_of(force: InForce, nowhere: Iterable[Unused]) -> Iterator[Diagnostic]:
    nowhere = tuple(nowhere)
    yield from _widened(force)
    yield from _void(force)
    yield from _by_age(force, nowhere)
    for unused in nowhere:
        if (unused.resource.object.kind, unused.cause) not in _REPORTED_BEFORE:
            yield _unused(unused)


def _widened(force: InForce) -> Iterator[Diagnostic]:
    """One finding for each rule with HTTP fields at ports without HTTP."""
    rules: dict[tuple[int, tuple[str | int, ...]], list[authorization.Widened]] = defaultdict(list)
    for widened in force.widened:
        rules[key_of_place(widened.place)].append(widened)
    for listed in rules.values():
        first = listed[0]
        ports = ", ".join(f"{it.workload.namespace}/{it.workload.name}:{it.port}" for it in listed[:_MOST_NAMES])
        more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
        place = first.place
        if first.is_lost:
            message = f"this rule admits nothing at ports without HTTP: {ports}{more}"
            cause = "the rule has fields of HTTP, and Istio leaves out such a rule of an ALLOW at a port without HTTP"
        else:
            message = f"this rule holds for more than it says at ports without HTTP: {ports}{more}"
            cause = "Istio leaves out the fields of HTTP there, and the rest of the rule matches more connections"
        hint = "limit the rule to ports with HTTP (`to.operation.ports`), or write one without fields of HTTP for these"
        violation = Violation("ADM989", place.where, message, cause, hint)
        yield diagnostic(place.object, violation, Severity.WARNING)


def _void(force: InForce) -> Iterator[Diagnostic]:
    """One finding for each ALLOW beside an ALLOW of everything."""
    open_at: dict[WorkloadKey, Object] = {}
    void: dict[int, tuple[Object, list[Workload]]] = {}
    for sidecar in force.sidecars:
        for manifest in (it.resource.object for it in sidecar.own if it.what is What.ALLOWED_ANYWAY):
            if authorization.admits_all(manifest):
                open_at[key_of(sidecar.workload)] = manifest
            else:
                void.setdefault(id(manifest), (manifest, []))[1].append(sidecar.workload)
    for manifest, workloads in void.values():
        first = workloads[0]
        other = open_at[key_of(first)]
        number = "1 workload" if len(workloads) == 1 else f"{len(workloads)} workloads"
        message = f"it refuses nothing at {number}, such as `{first.namespace}/{first.name}`"
        cause = f"{named(other)} admits every request there, and one ALLOW that admits a request is enough"
        related = (Related(span_of(other.document, other.where), f"{named(other)}, which admits every request"),)
        hint = "remove the ALLOW of everything, or write what must not pass as a DENY"
        yield diagnostic(manifest, Violation("ADM990", (), message, cause, hint), Severity.WARNING, related)


def _by_age(force: InForce, nowhere: Iterable[Unused]) -> Iterator[Diagnostic]:
    """One finding for each pair of which the older one counts, where no time is given."""
    pairs: dict[tuple[int, int], tuple[Place, Object]] = {}
    for clients, _ in force.classes:
        for place, by in clients.routing.behind:
            same = place.object is by.object or place.where
            if not same and exports_of_route(clients.view, place.object) == exports_of_route(clients.view, by.object):
                pairs[id(place.object), id(by.object)] = place, by.object
    for unused in nowhere:
        manifest, older = unused.resource.object, unused.by
        if unused.cause is Cause.OLDER_WINS and older is not None and manifest.kind != "VirtualService":
            selectors = [bool(spec_of(it).get("workloadSelector")) for it in (manifest, older.object)]
            if selectors[0] == selectors[1]:
                pairs.setdefault((id(manifest), id(older.object)), (unused.resource, older.object))
    for place, other in pairs.values():
        if place.object.created is None and other.created is None:
            message = f"whether it counts, or {named(other)} does, depends on their age, which is not known"
            cause = (
                "the manifests name no time of creation, so admc takes the first by name; a cluster may have another"
            )
            hint = "read them from the cluster (`kubectl get ... -o yaml`), or make one resource of both"
            related = (Related(span_of(other.document, other.where), "the one that is taken for the older one"),)
            yield diagnostic(
                place.object, Violation("ADM991", place.where, message, cause, hint), Severity.WARNING, related
            )


def _unused(unused: Unused) -> Diagnostic:
    place, by = unused.resource, unused.by
    subject = "a part of it" if place.where else "it"
    related: tuple[Related, ...] = ()
    if by is not None:
        span = span_of(by.object.document, (*by.object.where, *by.where))
        related = (Related(span, f"{named(by.object)}, which goes before it"),)
    message = f"{subject} is in force nowhere: {unused.cause}"
    return diagnostic(place.object, Violation("ADM992", place.where, message), Severity.NOTE, related)
