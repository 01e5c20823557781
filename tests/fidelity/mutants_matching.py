"""Mutants whose ADM takes requests for others than they are, sends them elsewhere, or changes them unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsl.program import Protocol, Side
from tests.fidelity.mutant import one, pair, single
from tests.fidelity.mutants_edits import always, away, connections, every, negated, put, routed, routes, says

if TYPE_CHECKING:
    from tests.fidelity.mutant import Mutant
    from tests.fidelity.mutants_edits import Change, Edit, Json

IN, OUT = Side.INGRESS, Side.EGRESS
HTTP, GRPC, TCP = Protocol.HTTP, Protocol.GRPC, Protocol.TCP
NO_CALLER: Final = [{"address_prefix": "192.0.2.1", "prefix_len": 32}]


def ports() -> list[Mutant]:
    """Connections that go elsewhere."""
    about = "the wrong port or service"
    return [
        one(about, "the port beside it", single("set_request_header", HTTP, IN), _port_beside),
        one(about, "the port beside it", single("jwt", GRPC, OUT), _port_beside),
        one(about, "the port beside it", single("access_log", TCP, OUT), _port_beside),
        one(about, "copies go to the service itself", single("mirror", HTTP, OUT), _copies_home),
        one(about, "none goes elsewhere", single("split", GRPC, OUT, "100%"), every("weighted_clusters", _stay)),
    ]


def _port_beside(hop: Json) -> Json:
    return {**hop, "clusters": [every("port_value", lambda number: number + 1)(each) for each in hop["clusters"]]}


def _copies_home(hop: Json) -> Json:
    home = hop["listener"]["name"]
    return every("request_mirror_policies", lambda each: [{**copy, "cluster": home} for copy in each])(hop)


def _stay(weighted: Json) -> Json:
    home, elsewhere = weighted["clusters"]
    return {"clusters": [{**home, "weight": elsewhere["weight"]}, {**elsewhere, "weight": home["weight"]}]}


def matches() -> list[Mutant]:
    """Requests and callers taken for others."""
    about, caller = "another match", "the wrong caller"
    header, path = 'header("x-deny")', 'path == "/admin"'
    return [
        one(about, "the opposite", single("deny", HTTP, OUT, header), negated("_deny")),
        one(about, "the opposite", single("fault_abort", GRPC, OUT, "x-abort"), negated("_fault_abort")),
        one(about, "none", single("deny", GRPC, OUT, header), always("_deny")),
        one(about, "none", single("request_count", HTTP, OUT, "method =="), always("_request_count")),
        one(about, "another header", single("deny", HTTP, IN, header), says("x-deny", "x-denied")),
        one(about, "another value", single("fault_delay", HTTP, OUT, "x-slow"), says("]*1[", "]*2[")),
        one(about, "one element of a list only", single("deny", HTTP, IN, header), every("value_match", _whole)),
        one(about, "another path", single("deny", HTTP, IN, path), says("/admin", "/admins")),
        one(about, "a prefix instead of the path", single("deny", HTTP, OUT, path), says("/admin?", "/admin")),
        one(about, "the query belongs to the path", single("deny", HTTP, OUT, path), says("/admin?", "/admin?b")),
        one(about, "a host in these letters only", single("deny", HTTP, OUT, "host =="), says("(?i:", "(?:")),
        one(about, "a host without a port", single("deny", GRPC, IN, "host =="), says("(?::[^:\\]]*)?", "")),
        one(about, "a host without a final dot", single("deny", HTTP, IN, "host =="), says("\\.?(", "(")),
        one(about, "another method", single("request_count", HTTP, IN, "method =="), says("POST", "PUT")),
        one(about, "a route for all", pair("remove_request_header", "retry", HTTP, (OUT, OUT), "x-in"), _unmatched),
        one(
            about,
            "one status more",
            single("retry", GRPC, OUT, "attempts: 3"),
            _internal_too,
        ),
        one(caller, "all callers", single("deny", HTTP, IN), always("_deny")),
        one(caller, "another caller", single("rate_limit", HTTP, IN, "{a, c}"), every("cidr_ranges", _first)),
        one(caller, "one address of two", single("connection_rate_limit", TCP, IN), put("cidr_ranges", NO_CALLER)),
        one(caller, "an address in a list", single("allow", GRPC, IN, "[a]", "{a, c}"), _caller_too(8)),
        one(caller, "an address in a list", single("allow", HTTP, IN, "[c]"), _caller_too(8)),
        one(caller, "no caller", single("allow", HTTP, IN, "[a]", "*"), put("address_prefix", "192.0.2.1", "_allow")),
        one(
            caller,
            "all callers",
            single("allow", TCP, IN, "[a]", "{a, c}"),
            put("cidr_ranges", NO_CALLER),
        ),
    ]


def _unmatched(hop: Json) -> Json:
    return routed(lambda each: each.update(on_no_match=each["matcher_list"]["matchers"][0]["on_match"]))(hop)


def _internal_too(hop: Json) -> Json:
    return every("retry_on", lambda each: f"{each},internal")(hop)


def _whole(value: Json) -> Json:
    """Compared with a header as a whole, not with its elements."""
    return {"exact": "1"} if "safe_regex" in value else value


def _first(ranges: list[Json]) -> list[Json]:
    return ranges[:1]


def _caller_too(bits: int) -> Edit:
    """A whole network is admitted instead of one address."""
    return every("principals", lambda each: [_widened(one, bits) for one in each])


def _widened(principal: Json, bits: int) -> Json:
    return {"direct_remote_ip": {**principal["direct_remote_ip"], "prefix_len": bits}}


def transparency() -> list[Mutant]:
    """What the ADM does by itself."""
    about = "what no policy asked for"

    def of(title: str, protocol: Protocol, side: Side, change: Change, path: str = "") -> Mutant:
        return one(about, title, single("request_count", protocol, side, path), connections(change))

    def field(name: str, value: Any) -> Change:
        return lambda manager: manager.update({name: value})

    return [
        of(
            "`x-forwarded-for` is written",
            HTTP,
            IN,
            lambda manager: manager.update(skip_xff_append=False, use_remote_address=True),
        ),
        of("`x-request-id` is written", GRPC, OUT, field("generate_request_id", True)),
        of("paths are normalised", HTTP, OUT, field("normalize_path", True), ".."),
        of("slashes are merged", HTTP, IN, field("merge_slashes", True), "//"),
        of(
            "slashes are unescaped", HTTP, OUT, field("path_with_escaped_slashes_action", "UNESCAPE_AND_FORWARD"), "%2F"
        ),
        of("the proxy is the server", HTTP, IN, field("server_header_transformation", "OVERWRITE")),
        of("clients command the proxy", HTTP, OUT, lambda manager: manager.pop("early_header_mutation_extensions")),
        one(
            about,
            "the proxy says how long it took",
            single("lua", HTTP, OUT),
            away("suppress_envoy_headers"),
        ),
        one(about, "the route's own patience", single("request_count", HTTP, OUT), _impatient),
        one(about, "the route's own patience", single("request_count", GRPC, IN), _impatient),
        one(about, "no route for the rest", single("fault_delay", HTTP, IN, "x-slow"), every("routes", _tunnels)),
        one(about, "a tunnel", single("rate_limit", HTTP, OUT, "per: 2h"), every("routes", _tunnelled)),
        one(about, "a tunnel", single("request_count", HTTP, IN, "PUT"), every("routes", _tunnelled)),
        one(about, "a tunnel", single("deny", HTTP, IN, "CONNECT"), negated("_deny")),
    ]


def _impatient(hop: Json) -> Json:
    return routes(lambda route: route.pop("timeout"))(hop)


def _tunnelled(found: list[Json]) -> list[Json]:
    """A CONNECT goes where all other requests go."""
    route = {key: value for key, value in found[-1]["route"].items() if key != "upgrade_configs"}
    return [{"match": each["match"], "route": route} if "connect_matcher" in each["match"] else each for each in found]


def _tunnels(found: list[Json]) -> list[Json]:
    return [each for each in found if "connect_matcher" in each["match"]]
