"""What a step says in the route tables of hops: which filters are skipped, and what is done about the marker.

A route table is one resource, it holds for open connections too, and a request sees one version of it only. So whether
a filter is skipped and whether the request is marked change at once; and the filters themselves stay as they are, with
whatever they have counted.

The header that is the marker is never let in from an application: a sender's ADM takes away whatever it finds, and the
receiver's takes it away in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from envoy.config.route.v3 import route_components_pb2, route_pb2

from admc.transition.marker import MARKER
from emitters.envoy.messages.typed import extension, message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from admc.transition.model import Toggle

_LIST: Final = route_components_pb2.RouteList.DESCRIPTOR.full_name
_HEADER_INPUT: Final = "envoy.type.matcher.v3.HttpRequestHeaderMatchInput"


def toggled(table: Any, toggle: Toggle) -> route_pb2.RouteConfiguration:
    """A hop's route table with what a step says. `table` stays as it is."""
    result = route_pb2.RouteConfiguration()
    result.CopyFrom(table)
    for host in result.virtual_hosts:
        if toggle.met:
            _split(host, toggle)
        else:
            _skip(host, _filters(toggle, toggle.off))
        for route in _routes(host):
            _mark(result.name, route, toggle)
    return result


def _filters(toggle: Toggle, policies: Iterable[str]) -> tuple[str, ...]:
    return tuple(called for name in sorted(policies) for called in toggle.filters[name])


def _split(host: Any, toggle: Toggle) -> None:
    """Two tables in one: for requests with the marker, and for all others."""
    other, met = route_components_pb2.VirtualHost(), route_components_pb2.VirtualHost()
    other.CopyFrom(host)
    met.CopyFrom(host)
    _skip(other, _filters(toggle, toggle.off))
    _skip(met, _filters(toggle, toggle.off | toggle.met))
    predicate = {
        "single_predicate": {
            "input": extension("request-headers", _HEADER_INPUT, header_name=MARKER),
            "value_match": {"exact": toggle.secret},
        }
    }
    matcher: Any = message(
        "xds.type.matcher.v3.Matcher",
        {"matcher_list": {"matchers": [{"predicate": predicate, "on_match": {"action": _nothing()}}]}},
    )
    _outcome(met, matcher.matcher_list.matchers[0].on_match)
    _outcome(other, matcher.on_no_match)
    del host.routes[:]
    host.matcher.CopyFrom(matcher)


def _nothing() -> Any:
    return extension("route", _LIST, routes=[])


def _outcome(host: Any, on_match: Any) -> None:
    """What a virtual host does, as the outcome of a matcher."""
    if host.HasField("matcher"):
        on_match.matcher.CopyFrom(host.matcher)
        return
    on_match.action.name = "route"
    on_match.action.typed_config.Pack(route_components_pb2.RouteList(routes=host.routes), deterministic=True)


def _skip(host: Any, filters: Iterable[str]) -> None:
    names = tuple(filters)
    if not names:
        return
    disabled = message("envoy.config.route.v3.FilterConfig", {"disabled": True})
    for route in _routes(host):
        for name in names:
            route.typed_per_filter_config[name].Pack(disabled, deterministic=True)


def _mark(hop: str, route: Any, toggle: Toggle) -> None:
    """Whoever finds a marker takes it away; who marks sets his own, on what goes to the hop's destination only."""
    for mirror in route.route.request_mirror_policies:
        mirror.request_headers_mutations.add().remove = MARKER
    shares = route.route.weighted_clusters.clusters
    for place in shares or (route,):
        place.request_headers_to_remove.append(MARKER)
        if toggle.marks and not (shares and place.name.startswith(f"{hop}/to:")):
            added = place.request_headers_to_add.add()
            added.header.key, added.header.value = MARKER, toggle.secret
            added.append_action = added.OVERWRITE_IF_EXISTS_OR_ADD


def _routes(host: Any) -> Iterator[Any]:
    """Every route of a virtual host, to be changed in place."""
    yield from host.routes
    if host.HasField("matcher"):
        yield from _of_matcher(host.matcher)


def _of_matcher(matcher: Any) -> Iterator[Any]:
    for each in matcher.matcher_list.matchers:
        yield from _of_outcome(each.on_match)
    if matcher.HasField("on_no_match"):
        yield from _of_outcome(matcher.on_no_match)


def _of_outcome(on_match: Any) -> Iterator[Any]:
    if on_match.HasField("matcher"):
        yield from _of_matcher(on_match.matcher)
        return
    packed = on_match.action.typed_config
    for kind in (route_components_pb2.RouteList, route_components_pb2.Route):
        if packed.Is(kind.DESCRIPTOR):
            content = kind()
            packed.Unpack(content)
            yield from content.routes if kind is route_components_pb2.RouteList else (content,)
            packed.Pack(content, deterministic=True)
