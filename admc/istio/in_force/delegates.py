"""The HTTP routes of a VirtualService, with those that it delegates to another one in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from admc.istio.in_force.exports import is_seen
from admc.istio.in_force.selection import items, mapping
from admc.istio.mesh.model import Place, spec_of
from admc.istio.mesh.references import NETWORKING
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.in_force.view import View
    from admc.manifests.documents import Object

_INHERITED = (
    "rewrite",
    "directResponse",
    "timeout",
    "retries",
    "fault",
    "mirror",
    "mirrorPercent",
    "mirrorPercentage",
    "corsPolicy",
    "mirrors",
    "headers",
)
"""What a delegate's route has from the route that delegates, where it lacks it."""
_TEXTS = ("uri", "scheme", "method", "authority")
_TABLES = ("headers", "withoutHeaders", "queryParams")


class Route(NamedTuple):
    """An HTTP route as a sidecar has it."""

    data: dict[str, Any]
    place: Place
    """Where it is written: in the delegate, if it is one's."""
    parent: Place
    """In the VirtualService that has hosts."""


class HttpRoutes:
    """The HTTP routes of the VirtualServices of a view. Those of each are made once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._made: dict[int, tuple[Route, ...]] = {}
        self._delegates: dict[tuple[str, str], Object] = {}
        for manifest in view.of_kind(NETWORKING, "VirtualService"):
            if not spec_of(manifest).get("hosts"):
                self._delegates.setdefault((manifest.namespace, manifest.name), manifest)

    def of(self, virtual_service: Object) -> tuple[Route, ...]:
        if id(virtual_service) not in self._made:
            self._made[id(virtual_service)] = tuple(self._routes(virtual_service))
        return self._made[id(virtual_service)]

    def matches(self, virtual_service: Object) -> Iterator[Any]:
        """Those of all its routes, also of TCP and TLS."""
        for route in self.of(virtual_service):
            yield from items(route.data.get("match"))
        for kind in ("tcp", "tls"):
            for rule in items(spec_of(virtual_service).get(kind)):
                yield from items(at(rule, ("match",)))

    def _routes(self, virtual_service: Object) -> Iterator[Route]:
        for index, data in enumerate(items(spec_of(virtual_service).get("http"))):
            place = Place(virtual_service, ("spec", "http", index))
            delegate = at(data, ("delegate",))
            if delegate is None:
                yield Route(data, place, place)
                continue
            other = self._delegate(virtual_service, delegate)
            if other is None:
                continue
            for number, inner in enumerate(items(spec_of(other).get("http"))):
                merged = _merged(data, inner)
                if merged is not None:
                    yield Route(merged, Place(other, ("spec", "http", number)), place)

    def _delegate(self, virtual_service: Object, delegate: Any) -> Object | None:
        """The VirtualService that a route delegates to, if it is one without hosts and visible."""
        wanted = at(delegate, ("namespace",)) or virtual_service.namespace, at(delegate, ("name",))
        other = self._delegates.get(wanted)
        return other if other is not None and is_seen(self._view, other, virtual_service.namespace) else None


def _merged(root: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any] | None:
    """A delegate's route below the one that delegates; None where their matches exclude each other."""
    matches = _matches(items(root.get("match")), items(inner.get("match")))
    if matches is None:
        return None
    inherited = {name: root[name] for name in _INHERITED if name in root}
    return {**inherited, **inner, **({"match": matches} if matches else {})}


def _matches(outer: list[Any], inner: list[Any]) -> list[Any] | None:
    if not outer or not inner:
        return outer or inner
    made = []
    for one in inner:
        fitting = [_both(other, one) for other in outer if not _conflict(other, one)]
        if not fitting:
            return None
        made += fitting
    return made


def _both(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    tables = {
        name: {**mapping(outer.get(name)), **mapping(inner.get(name))}
        for name in (*_TABLES, "sourceLabels")
        if outer.get(name) or inner.get(name)
    }
    return {**outer, **inner, **tables}


def _conflict(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    if any(_texts_conflict(outer.get(name), inner.get(name)) for name in _TEXTS):
        return True
    for name in _TABLES:
        table = mapping(outer.get(name))
        if any(_texts_conflict(table.get(key), value) for key, value in mapping(inner.get(name)).items()):
            return True
    labels = mapping(outer.get("sourceLabels"))
    if any(key in labels and labels[key] != value for key, value in mapping(inner.get("sourceLabels")).items()):
        return True
    if bool(outer.get("ignoreUriCase")) != bool(inner.get("ignoreUriCase")):
        return True
    if outer.get("port") and inner.get("port") and outer["port"] != inner["port"]:
        return True
    namespace = outer.get("sourceNamespace")
    gateways = items(outer.get("gateways")), items(inner.get("gateways"))
    return bool(namespace and inner.get("sourceNamespace") != namespace) or bool(
        all(gateways) and not set(gateways[1]) <= set(gateways[0])
    )


def _texts_conflict(outer: Any, inner: Any) -> bool:
    """Whether a text match of a delegate is not within that of the route above it."""
    if not isinstance(outer, dict) or not isinstance(inner, dict):
        return False
    if "regex" in outer or "regex" in inner:
        return bool(outer) and bool(inner)
    value = inner.get("exact") or inner.get("prefix") or ""
    if "exact" in outer:
        return "prefix" in inner or inner.get("exact") != outer["exact"]
    return not ("prefix" in outer and bool(value) and value.startswith(outer["prefix"]))
