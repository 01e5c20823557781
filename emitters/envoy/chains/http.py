"""One HTTP connection manager for each hop that carries requests: filters in declared order, then the routes.

Each filter decides whether its policy applies to a request when the request reaches the filter, so a match sees the
changes of outer policies. Without a policy that demands it, the manager changes only what Envoy could not forward (it
keeps three protocols of `Upgrade`, makes HTTP/1.0 HTTP/1.1 and refuses CONNECT), and it marks replies of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Protocol, Side, Stage
from emitters.envoy.chains import routes
from emitters.envoy.chains.clusters import ADS, MAX_HEADERS, MAX_HEADERS_KB, http1_options, http2_options
from emitters.envoy.failure_marks import close_after_failure, mark_again, mark_reply
from emitters.envoy.held_headers import FRAMING, HOLD, hold, hold_again, tell_version
from emitters.envoy.kinds.registry import arguments_of
from emitters.envoy.kinds.shared.filter_state import set_state
from emitters.envoy.matching.callers import conditions
from emitters.envoy.matching.header_elements import none_of
from emitters.envoy.matching.predicates import (
    CONDITIONAL,
    Predicate,
    all_of,
    any_of,
    header_predicate,
    negation,
    only_where,
    state_predicate,
)
from emitters.envoy.messages.typed import PREFIX, Json, extension, typed
from emitters.envoy.names import filter_name, second_filter_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.envoy.kinds.interface import CalledService, EnvoyKind, HttpFilter
    from emitters.hops import Hop

_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
_EARLY: Final = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
_UPGRADES: Final = ("websocket", "spdy/3.1", "tcp")
"""The protocols to which a client may upgrade a request. Envoy forwards the bytes after such a request only once the
service has agreed, with 101."""
_OFFERED: Final = tuple(",".join(names) for length in (1, 2, 3) for names in product(_UPGRADES, repeat=length))
"""The values of `Upgrade` that Envoy honours. It takes a list for the name of one protocol; the lists that arrive here
have no other protocols any more, and no spaces (`ignore_http_11_upgrade`)."""
_GRPC_DEADLINE_EXCEEDED: Final = "4"
BODILESS: Final = (204, 205, 304)
"""Statuses of an answer that has no body."""
_FORBIDDEN: Final = 403


class HttpChain(NamedTuple):
    """The network filter of a hop and all that it refers to."""

    manager: Json
    extensions: tuple[Json, ...]
    """`TypedExtensionConfig`s that the manager takes by ECDS."""
    table: routes.RouteTable
    calls: tuple[CalledService, ...]
    """Services that filters call by themselves."""
    upstream: tuple[Json, ...]
    """Filters that every attempt passes, on its way out of the cluster."""


@dataclass(slots=True)
class _Filters:
    """The HTTP filters of one hop while they are put together, and the resources that they refer to."""

    hop: Hop
    managed: list[Json] = field(default_factory=list)
    """Filters of the connection manager."""
    extensions: list[Json] = field(default_factory=list)
    upstream: list[Json] = field(default_factory=list)
    logs: list[Json] = field(default_factory=list)
    per_route: dict[str, Json] = field(default_factory=dict)
    calls: list[CalledService] = field(default_factory=list)
    waits_for_body: bool = False
    writes_request: bool = False
    writes_anything: bool = False
    replies_with_any_header: bool = False

    def discover(self, name: str, config: Json, content: Json) -> None:
        """Adds a filter that gets its configuration by ECDS. `content` is the configuration without conditions."""
        self.extensions.append({"name": name, "typed_config": config})
        self.managed.append(_discovered(name, content))

    def mark_request(self, policy: Policy, place: str) -> Predicate:
        """Adds a filter named `place` that notes each request; the predicate holds for the responses to such requests.

        Envoy also leads the replies of outer filters through all filters; their requests have not passed here, and have
        no note. The note does not depend on the filters before this one, and has the name of the policy and not that of
        its place: both may change while connections are open, and the policy would then skip their responses.
        """
        key = f"admc.passed.{policy.name}"
        note = typed(
            "envoy.extensions.filters.http.set_filter_state.v3.Config", on_request_headers=[set_state(key, "1")]
        )
        self.managed.append({"name": place, "typed_config": note})
        return state_predicate(key, "1")

    def add(self, policy: Policy, built: HttpFilter, needed: list[Predicate]) -> None:
        """Adds the filters of a policy, which act where all predicates hold."""
        name = filter_name(self.hop.name, policy)
        self.discover(name, only_where(needed, policy.name, built.config), built.config)
        if built.second is not None:
            second = only_where(needed, policy.name, built.second)
            self.discover(second_filter_name(name), second, built.second)
        if built.per_route is not None:
            self.per_route[name] = built.per_route
        if built.access_log is not None:
            self.logs.append(built.access_log)
        if built.calls is not None:
            self.calls.append(built.calls)
        self.writes_request = self.writes_request or built.writes_request
        self.writes_anything = self.writes_anything or built.writes_anything
        self.replies_with_any_header = self.replies_with_any_header or built.replies_with_any_header


def chain(context: Context, hop: Hop) -> HttpChain:
    """The connection manager of a hop."""
    kinds = {policy.name: arguments_of(policy) for policy in hop.policies}
    filters = _filters(context, hop, kinds)
    table = routes.table(context, hop, filters.per_route)
    if filters.writes_anything:
        filters.managed.append(_hold_again(hop))
    if hop.side is Side.INGRESS and (filters.writes_anything or filters.replies_with_any_header):
        filters.managed[:0] = _mark_again(hop)
    if hop.side is Side.INGRESS:
        # In front of all others: an answer passes it last, with the mark that its client sees.
        filters.managed.insert(0, {"name": f"{hop.name}/failed", "typed_config": close_after_failure()})
    for config in table.marks:
        filters.discover(config["name"], config["typed_config"], config["typed_config"])
    if table.marks or (filters.writes_request and (table.matches or _tells_version(hop))):
        filters.managed.append(_choose_route_again(hop))
    filters.managed.append(_router())
    manager = _manager(hop, filters, _own_replies(hop, list(kinds.values())))
    return HttpChain(manager, tuple(filters.extensions), table, tuple(filters.calls), tuple(filters.upstream))


def _filters(context: Context, hop: Hop, kinds: Mapping[str, EnvoyKind]) -> _Filters:
    """The filters of all policies that work in filters, in declared order."""
    filters = _Filters(hop)
    for position, policy in enumerate(hop.policies):
        stage = hop.stage(policy)
        if stage in (Stage.ROUTING, Stage.CLUSTER):
            continue
        built = kinds[policy.name].http_filter(context, hop, policy)
        needed = conditions(context, policy, hop)
        if built.waits_for_body:
            filters.waits_for_body = True
            needed.append(negation(_tunnel()))
        if stage is Stage.UPSTREAM:
            config = only_where(needed, policy.name, built.config)
            filters.upstream.append({"name": filter_name(hop.name, policy), "typed_config": config})
            continue
        if built.on_response:
            # In a chain with the filters of two plans, the name shows the plan of the note.
            by_name = f"{filter_name(hop.name, policy)}:reached"
            place = by_name if context.by_chain else f"{hop.name}/position/{position}"
            needed.insert(0, filters.mark_request(policy, place))
        filters.add(policy, built, needed)
    return filters


def _discovered(name: str, config: Json) -> Json:
    """A filter that gets its configuration by ECDS.

    Envoy accepts announced types only. A later match or scope may add conditions, so the type with conditions is always
    announced, too.
    """
    types = list(dict.fromkeys((config.get("@type", ""), PREFIX + CONDITIONAL)))
    return {"name": name, "config_discovery": {"config_source": ADS, "type_urls": types}}


def _choose_route_again(hop: Hop) -> Json:
    """A filter after which Envoy chooses the route again. Envoy chooses it before the first filter, but a match in a
    route has to see the changes that filters made."""
    script = "function envoy_on_request(handle)\n  handle:clearRouteCache()\nend\n"
    return extension(
        f"{hop.name}/route",
        "envoy.extensions.filters.http.lua.v3.Lua",
        default_source_code={"inline_string": script},
    )


def _hold_again(hop: Hop) -> Json:
    """A filter behind the last filter of a policy, and before the filters that set the headers of the route table."""
    mutations = [*hold_again(), *([tell_version()] if _tells_version(hop) else [])]
    return extension(f"{hop.name}/held-headers", _MUTATION, mutations={"request_mutations": mutations})


def _mark_again(hop: Hop) -> list[Json]:
    """Filters in front of the first filter of a policy, so that answers pass them last."""
    return [
        {"name": f"{hop.name}/{name}", "typed_config": config}
        for name, config in zip(("unmarked", "marked"), mark_again(), strict=True)
    ]


def _tells_version(hop: Hop) -> bool:
    return len(routes.copy_versions(hop)) > 1


def _router() -> Json:
    return extension("router", "envoy.extensions.filters.http.router.v3.Router", suppress_envoy_headers=True)


def _tunnel() -> Predicate:
    """The predicate that a request asks for a tunnel and has no body. It still has `Upgrade` only if Envoy honours
    it."""

    def present(name: str) -> Predicate:
        return header_predicate(name, {"safe_regex": {"google_re2": {}, "regex": "(?s).*"}})

    asked = any_of([present("upgrade"), header_predicate(":method", {"exact": "CONNECT"})])
    return all_of([asked, negation(present("content-length")), negation(present(HOLD + FRAMING))])


def _manager(hop: Hop, filters: _Filters, own_replies: list[Json]) -> Json:
    """The connection manager itself."""
    early = hold()
    if _tells_version(hop):
        early.append(tell_version())
    fields: Json = {
        "stat_prefix": hop.name,
        "http_filters": filters.managed,
        "rds": {"config_source": ADS, "route_config_name": hop.name},
        "early_header_mutation_extensions": [extension("held-headers", _EARLY, mutations=early)],
        "server_header_transformation": "PASS_THROUGH",
        "generate_request_id": False,
        "preserve_external_request_id": True,
        "forward_client_cert_details": "ALWAYS_FORWARD_ONLY",
        "use_remote_address": False,
        "skip_xff_append": True,
        # With a filter that waits for the whole body, the service cannot tell the client whether to send the body.
        "proxy_100_continue": not filters.waits_for_body,
        "stream_idle_timeout": "0s",
        "request_timeout": "0s",
        "request_headers_timeout": "0s",
        "normalize_path": False,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "max_request_headers_kb": MAX_HEADERS_KB,
        "common_http_protocol_options": {
            "idle_timeout": "0s",
            "max_headers_count": MAX_HEADERS,
            "headers_with_underscores_action": "ALLOW",
        },
        "http_protocol_options": http1_options(
            accept_http_10=True,
            allow_custom_methods=True,
            # A server without support for an upgrade answers as if the client had not asked; Envoy would refuse it.
            ignore_http_11_upgrade=[{"safe_regex": {"regex": none_of(_UPGRADES)}}],
            # HTTP/1.0 needs no Host; the request that Envoy forwards is HTTP/1.1.
            default_host_for_http_10=hop.destination,
        ),
        "http2_protocol_options": http2_options(),
        # Without an entry for CONNECT, Envoy refuses such a request before any filter sees it.
        "upgrade_configs": [{"upgrade_type": name} for name in (*_OFFERED, routes.CONNECT)],
        "access_log": filters.logs,
    }
    if own_replies:
        fields["local_reply_config"] = {"mappers": own_replies}
    return extension(
        "http", "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", **fields
    )


def _own_replies(hop: Hop, kinds: Sequence[EnvoyKind]) -> list[Json]:
    """Changes of replies that Envoy makes itself. Envoy applies the first one that fits."""
    mappers: list[Json] = [mark_reply()] if hop.side is Side.INGRESS else []
    if hop.port.protocol is Protocol.GRPC:
        # By default, Envoy's own timeout has the status UNAVAILABLE, for which many callers repeat a request.
        timed_out = {"response_flag_filter": {"flags": ["UT"]}}
        deadline = {"header": {"key": "grpc-status", "value": _GRPC_DEADLINE_EXCEEDED}}
        mappers.append({"filter": timed_out, "headers_to_add": [deadline]})
    # A client takes an interim status for no answer at all, or for consent to another protocol.
    if any(kind.replies_with_any_status for kind in kinds):
        interim = {"filter": _with(199, "LE"), "status_code": _FORBIDDEN, "body": {"inline_string": ""}}
        mappers.append(interim)
    # Envoy sends a body with any status, and a client reads it as the beginning of the next answer.
    return mappers + [
        {"filter": _with(status, "EQ"), "body": {"inline_string": ""}}
        for status in BODILESS
        if any(kind.may_reply_with(status) for kind in kinds)
    ]


def _with(status: int, comparison: str) -> Json:
    # Envoy demands the name of a runtime value that could replace the number.
    value = {"default_value": status, "runtime_key": f"admc.status.{status}"}
    return {"status_code_filter": {"comparison": {"op": comparison, "value": value}}}
