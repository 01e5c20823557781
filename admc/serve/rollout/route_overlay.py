"""Writes a step into the route table of a hop: which filters are skipped, and whether the marker is set or removed.

A route table is one resource. It holds for open connections too, and each request uses one version of it. So the
enforced plan and the marker change at the same moment, and the filters stay unchanged, with their counters.

An application cannot send a marker: the sender's ADM removes every marker that it receives, and the receiver's ADM
removes the marker from every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from envoy.config.route.v3 import route_components_pb2, route_pb2

from admc.serve.rollout.marker import MARKER
from emitters.envoy.messages.typed import extension, message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.serve.rollout.model import Plan, RouteOverlay

_LIST: Final = route_components_pb2.RouteList.DESCRIPTOR.full_name
_HEADER_INPUT: Final = "envoy.type.matcher.v3.HttpRequestHeaderMatchInput"


def overlaid(
    name: str, hop: str, tables: Mapping[Plan, Any], filters: Mapping[Plan, tuple[str, ...]], overlay: RouteOverlay
) -> route_pb2.RouteConfiguration:
    """Return the route table of a hop in a step, made from the tables of both plans."""
    host = _host(tables, filters, overlay.unmarked)
    if overlay.marked is not None and overlay.marked != overlay.unmarked:
        _split(host, _host(tables, filters, overlay.marked), overlay.secret)
    for route in _routes(host):
        _mark(hop, route, overlay)
    return route_pb2.RouteConfiguration(name=name, virtual_hosts=[host])


def _host(tables: Mapping[Plan, Any], filters: Mapping[Plan, tuple[str, ...]], plan: Plan) -> Any:
    """Return the virtual host of one plan, whose routes skip the filters of the other plan."""
    host = route_components_pb2.VirtualHost()
    host.CopyFrom(tables[plan].virtual_hosts[0])
    other = tables[plan.other].virtual_hosts[0]
    host.request_headers_to_remove.extend(
        name for name in other.request_headers_to_remove if name not in host.request_headers_to_remove
    )
    for name, settings in other.typed_per_filter_config.items():
        if name not in host.typed_per_filter_config:
            host.typed_per_filter_config[name].CopyFrom(settings)
    disabled = message("envoy.config.route.v3.FilterConfig", {"disabled": True})
    skipped = sorted(set(filters[plan.other]) - set(filters[plan]))
    for route in _routes(host):
        for name in skipped:
            route.typed_per_filter_config[name].Pack(disabled, deterministic=True)
    return host


def _split(host: Any, marked: Any, secret: str) -> None:
    """Combine two tables: one for requests with the marker, and one for all others."""
    predicate = {
        "single_predicate": {
            "input": extension("request-headers", _HEADER_INPUT, header_name=MARKER),
            "value_match": {"exact": secret},
        }
    }
    action = extension("route", _LIST, routes=[])
    matcher: Any = message(
        "xds.type.matcher.v3.Matcher",
        {"matcher_list": {"matchers": [{"predicate": predicate, "on_match": {"action": action}}]}},
    )
    _outcome(marked, matcher.matcher_list.matchers[0].on_match)
    _outcome(host, matcher.on_no_match)
    del host.routes[:]
    host.matcher.CopyFrom(matcher)


def _outcome(host: Any, on_match: Any) -> None:
    """Write the routes of a virtual host as the outcome of a matcher."""
    if host.HasField("matcher"):
        on_match.matcher.CopyFrom(host.matcher)
        return
    on_match.action.name = "route"
    on_match.action.typed_config.Pack(route_components_pb2.RouteList(routes=host.routes), deterministic=True)


def _mark(hop: str, route: Any, overlay: RouteOverlay) -> None:
    """Remove any marker that a request has. A sender sets its own marker on requests to the hop's destination only."""
    for mirror in route.route.request_mirror_policies:
        mirror.request_headers_mutations.add().remove = MARKER
    shares = route.route.weighted_clusters.clusters
    for place in shares or (route,):
        place.request_headers_to_remove.append(MARKER)
        if overlay.marks and not (shares and place.name.startswith(f"{hop}/to:")):
            added = place.request_headers_to_add.add()
            added.header.key, added.header.value = MARKER, overlay.secret


def _routes(host: Any) -> Iterator[Any]:
    """Yield every route of a virtual host, to be changed in place."""
    yield from host.routes
    if host.HasField("matcher"):
        yield from _of_matcher(host.matcher)


def _of_matcher(matcher: Any) -> Iterator[Any]:
    for field_matcher in matcher.matcher_list.matchers:
        yield from _of_outcome(field_matcher.on_match)
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
