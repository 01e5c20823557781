"""One HTTP connection manager for each hop that carries requests: filters in declared order, then the routes.

Whether a policy applies to a request is decided at its filter, when the request gets there: so a match sees what outer
policies wrote. Nothing that no policy asks for is done to a request or a response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dsl.program import Protocol, Stage
from emitters.envoy import filters, routes
from emitters.envoy.clusters import ADS, MAX_HEADERS, MAX_HEADERS_KB, http1_options, http2_options
from emitters.envoy.elements import none_of
from emitters.envoy.filters.seeing import set_state
from emitters.envoy.match import (
    CONDITIONAL,
    Predicate,
    all_of,
    any_of,
    conditions,
    header_predicate,
    negation,
    only_where,
    state_predicate,
)
from emitters.envoy.names import FRAMING, HOLD, hold, tell_version
from emitters.envoy.typed import PREFIX, Json, extension, typed
from emitters.scope import behind_name, filter_name

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.scope import Hop

_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
_EARLY: Final = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
_UPGRADES: Final = ("websocket", "CONNECT", "spdy/3.1", "tcp")
_GRPC_DEADLINE_EXCEEDED: Final = "4"
MAX_FRAMES: Final = 10_000
"""How many HTTP/2 frames that ask for nothing a client may send, or leave unread; Envoy by itself takes between 1 and
1,000, depending on the frame. What services send is not counted."""
BODILESS: Final = (204, 205, 304)
"""Statuses of an answer that has no body."""
_FORBIDDEN: Final = 403
_ANY_REPLY: Final = frozenset({"external_authorization", "lua", "wasm"})
"""Kinds that answer by themselves with a status that is not known here."""


class HttpChain(NamedTuple):
    """The network filter of a hop and all that it refers to."""

    manager: Json
    extensions: tuple[Json, ...]
    """`TypedExtensionConfig`s that the manager takes by ECDS."""
    table: routes.Table
    calls: tuple[str, ...]
    """Services that filters call."""
    upstream: tuple[Json, ...]
    """Filters that every attempt passes, on its way out of the cluster."""


def chain(context: Context, hop: Hop) -> HttpChain:
    """The connection manager of a hop."""
    managed: list[Json] = []
    extensions: list[Json] = []
    logs: list[Json] = []
    in_route: dict[str, Json] = {}
    calls: list[str] = []
    upstream: list[Json] = []
    rewritten = False
    waits = False
    for position, policy in enumerate(hop.policies):
        if hop.stage(policy) in (Stage.ROUTING, Stage.CLUSTER):
            continue
        built = filters.build(context, hop, policy)
        name = filter_name(hop.name, policy)
        needed = conditions(context, policy, hop)
        if built.waits_for_body:
            waits = True
            needed.append(negation(_tunnel()))
        if hop.stage(policy) is Stage.UPSTREAM:
            upstream.append({"name": name, "typed_config": only_where(needed, policy.name, built.config)})
            continue
        if built.on_response:
            # Envoy leads a reply of an outer filter through all filters: only a request leaves this trace. It is there
            # whatever comes before the policy, and told by the policy and not by its place: both may change while
            # connections are open, and what is done to their answers would be left out.
            passed = f"admc.passed.{policy.name}"
            marker = typed(
                "envoy.extensions.filters.http.set_filter_state.v3.Config", on_request_headers=[set_state(passed, "1")]
            )
            # In a chain that has the filters of two plans, the name tells whose it is.
            place = f"{name}:reached" if context.by_chain else f"{hop.name}/position/{position}"
            managed.append({"name": place, "typed_config": marker})
            needed.insert(0, state_predicate(passed, "1"))
        config = only_where(needed, policy.name, built.config)
        extensions.append({"name": name, "typed_config": config})
        managed.append(_discovered(name, built.config))
        if built.behind is not None:
            config = only_where(needed, policy.name, built.behind)
            extensions.append({"name": behind_name(name), "typed_config": config})
            managed.append(_discovered(extensions[-1]["name"], built.behind))
        if built.in_route is not None:
            in_route[name] = built.in_route
        if built.access_log is not None:
            logs.append(built.access_log)
        if built.calls is not None:
            calls.append(built.calls)
        rewritten = rewritten or built.writes_request
    table = routes.table(context, hop, in_route)
    for config in table.marks:
        extensions.append(config)
        managed.append(_discovered(config["name"], config["typed_config"]))
    if table.marks or (rewritten and table.matches):
        managed.append(_choose_route_again(hop))
    managed.append(_router())
    return HttpChain(_manager(hop, managed, logs, waits=waits), tuple(extensions), table, tuple(calls), tuple(upstream))


def _discovered(name: str, config: Json) -> Json:
    """A filter whose configuration comes by ECDS: this one, or the same under conditions. Envoy takes no type that was
    not announced, and conditions come and go with a match and with who is meant."""
    types = list(dict.fromkeys((config.get("@type", ""), PREFIX + CONDITIONAL)))
    return {"name": name, "config_discovery": {"config_source": ADS, "type_urls": types}}


def _choose_route_again(hop: Hop) -> Json:
    """Envoy chooses the route before the first filter; a match in a route must see what the filters wrote."""
    script = "function envoy_on_request(handle)\n  handle:clearRouteCache()\nend\n"
    return extension(
        f"{hop.name}/route",
        "envoy.extensions.filters.http.lua.v3.Lua",
        default_source_code={"inline_string": script},
    )


def _router() -> Json:
    return extension("router", "envoy.extensions.filters.http.router.v3.Router", suppress_envoy_headers=True)


def _tunnel() -> Predicate:
    """The request asks for a tunnel and has no body. `Upgrade` is still there only where Envoy honours it."""

    def present(name: str) -> Predicate:
        return header_predicate(name, {"safe_regex": {"google_re2": {}, "regex": "(?s).*"}})

    asked = any_of([present("upgrade"), header_predicate(":method", {"exact": "CONNECT"})])
    return all_of([asked, negation(present("content-length")), negation(present(HOLD + FRAMING))])


def _manager(hop: Hop, managed: list[Json], logs: list[Json], *, waits: bool) -> Json:
    """`waits`: a filter wants the whole body first, so the service cannot be asked whether to send it."""
    early = hold()
    if len(routes.copy_versions(hop)) > 1:
        early.append(tell_version())
    fields: dict[str, Any] = {
        "stat_prefix": hop.name,
        "http_filters": managed,
        "rds": {"config_source": ADS, "route_config_name": hop.name},
        "early_header_mutation_extensions": [extension("held-headers", _EARLY, mutations=early)],
        "server_header_transformation": "PASS_THROUGH",
        "generate_request_id": False,
        "preserve_external_request_id": True,
        "forward_client_cert_details": "ALWAYS_FORWARD_ONLY",
        "use_remote_address": False,
        "skip_xff_append": True,
        "proxy_100_continue": not waits,
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
            # A server that does not know an upgrade answers as if it had not been asked for; Envoy would refuse it.
            ignore_http_11_upgrade=[{"safe_regex": {"regex": none_of(_UPGRADES)}}],
            # HTTP/1.0 needs no Host, and what is passed on is HTTP/1.1.
            default_host_for_http_10=hop.destination,
        ),
        "http2_protocol_options": http2_options(
            max_outbound_control_frames=MAX_FRAMES,
            max_consecutive_inbound_frames_with_empty_payload=MAX_FRAMES,
            max_inbound_priority_frames_per_stream=MAX_FRAMES,
            max_inbound_window_update_frames_per_data_frame_sent=MAX_FRAMES,
        ),
        "upgrade_configs": [{"upgrade_type": name} for name in _UPGRADES],
        "access_log": logs,
    }
    if mappers := _own_replies(hop):
        fields["local_reply_config"] = {"mappers": mappers}
    return extension(
        "http", "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", **fields
    )


def _own_replies(hop: Hop) -> list[Json]:
    """Changes of replies that Envoy makes itself. Envoy applies the first one that fits."""
    mappers: list[Json] = []
    if hop.port.protocol is Protocol.GRPC:
        # By itself Envoy calls its own timeout UNAVAILABLE, which a caller that retries on that would repeat.
        timed_out = {"response_flag_filter": {"flags": ["UT"]}}
        deadline = {"header": {"key": "grpc-status", "value": _GRPC_DEADLINE_EXCEEDED}}
        mappers.append({"filter": timed_out, "headers_to_add": [deadline]})
    # A client takes an interim status for no answer at all, or for leave to speak another protocol.
    if any(_any_status(policy) for policy in hop.policies):
        interim = {"filter": _with(199, "LE"), "status_code": _FORBIDDEN, "body": {"inline_string": ""}}
        mappers.append(interim)
    # Envoy sends a body with any status, and a client reads it as the beginning of the next answer.
    return mappers + [
        {"filter": _with(status, "EQ"), "body": {"inline_string": ""}}
        for status in BODILESS
        if any(_may_reply(policy, status) for policy in hop.policies)
    ]


def _may_reply(policy: Policy, status: int) -> bool:
    """Whether a policy may answer by itself with a status."""
    if policy.kind.name == "fault_abort":
        return policy.arguments["status"] == status
    return _any_status(policy)


def _any_status(policy: Policy) -> bool:
    return policy.kind.name in _ANY_REPLY or policy.kind.template is not None


def _with(status: int, comparison: str) -> Json:
    # Envoy demands the name of a runtime value that could replace the number.
    value = {"default_value": status, "runtime_key": f"admc.status.{status}"}
    return {"status_code_filter": {"comparison": {"op": comparison, "value": value}}}
