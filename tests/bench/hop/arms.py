"""Configurations of one hop that are measured beside the emitted one.

Each takes a part out or puts another one in, whether or not an ADM could keep its promises that way: the difference is
what the part costs. docs/adr/0043-a-leaner-hop.md says what came of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from emitters.envoy.held_headers import HELD, HOLD
from emitters.envoy.messages.typed import Json, extension

EMITTED: Final = "emitted"
_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
_EARLIER: Final = (
    *("expected-rq-timeout-ms", "force-trace", "hedge-on-per-try-timeout", "internal", "ip-tags", "max-retries"),
    *("original-url", "retriable-header-names", "retriable-status-codes", "retry-grpc-on", "retry-on"),
    *("upstream-alt-stat-name", "upstream-rq-per-try-timeout-ms", "upstream-rq-timeout-alt-response"),
    *("upstream-rq-timeout-ms", "upstream-stream-duration-ms"),
)
"""Headers that were held before Envoy's own headers had another prefix."""
_OF_ENVOY: Final = ("listener_manager.", "cluster_manager.", "server.", "control_plane.", "extension_config_discovery.")
_OF_POLICIES: Final = (
    *("rbac", "local_rate_limit", "circuit_breakers", "outlier_detection", "fault", "buffer", "jwt_authn", "ext_authz"),
    *("update_", "rq_retry", "rq_total", "cx_total", "cx_active", "cx_no_route"),
)


def _managers(config: Json) -> Iterator[Json]:
    for listener in config["static_resources"]["listeners"]:
        for chain in listener["filter_chains"]:
            yield from (item["typed_config"] for item in chain["filters"] if item["name"] == "http")


def _clusters(config: Json) -> Iterator[tuple[Json, Json]]:
    """Each cluster with its HTTP options."""
    for cluster in config["static_resources"]["clusters"]:
        for options in cluster.get("typed_extension_protocol_options", {}).values():
            yield cluster, options


def _early(config: Json) -> Iterator[Json]:
    """Each manager's mutations of requests before any filter."""
    for manager in _managers(config):
        yield from (item["typed_config"] for item in manager["early_header_mutation_extensions"])


def _routes(config: Json) -> Iterator[Json]:
    """Each virtual host, and each of its routes."""
    for manager in _managers(config):
        for host in manager["route_config"]["virtual_hosts"]:
            yield host
            yield from host["routes"]


def _as_emitted(config: Json) -> Json:
    return config


def _no_statistics(config: Json) -> Json:
    return {**config, "stats_config": {"stats_matcher": {"reject_all": True}}}


def _listed_statistics(config: Json) -> Json:
    """Those of Envoy itself, of policies, and totals: no histograms, and no counters by status."""
    patterns = [*({"prefix": name} for name in _OF_ENVOY), {"safe_regex": {"regex": f".*({'|'.join(_OF_POLICIES)}).*"}}]
    for manager in _managers(config):
        manager["http_filters"][-1]["typed_config"]["dynamic_stats"] = False
    return {**config, "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": patterns}}}}


def _nothing_held(config: Json) -> Json:
    for mutations in _early(config):
        mutations["mutations"] = mutations["mutations"][:1]  # Envoy demands one
    for place in _routes(config):
        place.pop("request_headers_to_remove", None)
        place.pop("request_headers_to_add", None)
    return config


def _upgrades_by_cel(config: Json) -> Json:
    """A list of protocols in `Upgrade` is shortened to its first one."""
    offered, first = "request.headers['upgrade']", "''"
    for name in ("tcp", "spdy/3.1", "websocket"):
        first = f"{offered}.matches('(?i)^{name.replace('.', '[.]')},') ? '{name}' : {first}"
    for mutations in _early(config):
        mutations["mutations"].append(_set("upgrade", f"%CEL({first})%"))
    return config


def _connections_stay(config: Json) -> Json:
    """No reply ends the connection of its client."""
    for manager in _managers(config):
        manager["http_filters"] = [each for each in manager["http_filters"] if not each["name"].endswith("/failed")]
    return config


def _one_pool(config: Json) -> Json:
    for cluster, _ in _clusters(config):
        del cluster["connection_pool_per_downstream_connection"]
    return config


def _http_2(config: Json) -> Json:
    for _, options in _clusters(config):
        two = options.pop("use_downstream_protocol_config")["http2_protocol_options"]
        options["explicit_http_config"] = {"http2_protocol_options": two}
    return config


def _http_1(config: Json) -> Json:
    """To the process of an http port, whatever the client speaks."""
    hops = {manager["stat_prefix"] for manager in _managers(config) if "grpc-status" not in str(manager)}
    for cluster, options in _clusters(config):
        if cluster["name"] in hops:
            one = options.pop("use_downstream_protocol_config")["http_protocol_options"]
            options["explicit_http_config"] = {"http_protocol_options": one}
    return config


def _seventeen_held(config: Json) -> Json:
    """Headers that Envoy obeys are renamed before the first filter, and renamed back by a filter of the cluster."""
    config = _nothing_held(config)
    del config["header_prefix"]
    names = [*(f"x-envoy-{name}" for name in _EARLIER), HELD]
    forget = {"remove_on_match": {"key_matcher": {"prefix": HOLD}}}
    held = [forget, _set(f"{HOLD}on", "1"), _set(f"{HOLD}framing", "%REQ(transfer-encoding)%")]
    back = []
    for name in names:
        held += [_set(HOLD + name, f"%REQ({name})%"), {"remove": name}]
        back += [{"remove": name}, _set(name, f"%REQ({HOLD}{name})%")]
    for mutations in _early(config):
        mutations["mutations"] = held
    codec = extension("codec", "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec")
    for _, options in _clusters(config):
        options["http_filters"] = [_where_held([*back, forget]), codec]
    return config


def _before(config: Json) -> Json:
    """As an ADM was before the decision of that page."""
    return _upgrades_by_cel(_seventeen_held(config))


def _where_held(mutations: list[Json]) -> Json:
    given = extension("header", "envoy.type.matcher.v3.HttpRequestHeaderMatchInput", header_name=f"{HOLD}on")
    skip = extension("skip", "envoy.extensions.filters.common.matcher.action.v3.SkipFilter")
    absent = {"not_matcher": {"single_predicate": {"input": given, "value_match": {"exact": "1"}}}}
    matchers = [{"predicate": absent, "on_match": {"action": skip}}]
    changed = extension("back", _MUTATION, mutations={"request_mutations": mutations})
    return extension(
        "back",
        "envoy.extensions.common.matching.v3.ExtensionWithMatcher",
        extension_config=changed,
        xds_matcher={"matcher_list": {"matchers": matchers}},
    )


def _set(name: str, value: str) -> Json:
    header = {"key": name, "value": value}
    return {"append": {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}


ARMS: Final[dict[str, Callable[[Json], Json]]] = {
    EMITTED: _as_emitted,
    "before": _before,
    "seventeen_held": _seventeen_held,
    "upgrades_by_cel": _upgrades_by_cel,
    "nothing_held": _nothing_held,
    "no_statistics": _no_statistics,
    "listed_statistics": _listed_statistics,
    "connections_stay": _connections_stay,
    "one_pool": _one_pool,
    "http_1_to_the_process": _http_1,
    "http_2_to_the_process": _http_2,
}
