"""The mutants: cases that the suite runs, each with one mistake in what an ADM is told or in where policies stand.

None is equivalent: each changes what some client or server could observe, and so what the suite has to notice.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dsl.program import Protocol, Side
from tests.fidelity.mutants_edits import (
    Change,
    Edit,
    Json,
    always,
    away,
    besides,
    connections,
    every,
    negated,
    put,
    routed,
    routes,
    says,
    swapped,
    without,
)
from tests.fidelity.pairs import pairs
from tests.fidelity.singles import singles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fidelity.cases import Case

IN, OUT = Side.INGRESS, Side.EGRESS
HTTP, GRPC, TCP = Protocol.HTTP, Protocol.GRPC, Protocol.TCP
Sides = tuple[Side, ...]
NOBODY: Final = [{"address_prefix": "192.0.2.1", "prefix_len": 32}]


class Mutant(NamedTuple):
    """A mistake in one case."""

    about: str
    """What kind of mistake."""
    title: str
    case: Case
    at: Side
    """Whose ADM is told something wrong: the receiver's, or the sender's."""
    edit: Edit | None = None
    """The mistake in the configuration of the case's hop."""
    sides: tuple[Sides, ...] = ()
    """Or where the case's policies really stand, whatever was decided."""

    @property
    def kinds(self) -> str:
        return ", ".join(policy.kind for policy in self.case.policies)


def single(kind: str, protocol: Protocol, side: Side, *about: str) -> Case:
    """The first case of one kind that has all these words in its arguments, match, scope or paths."""
    for case in _singles():
        policy = case.policies[0]
        words = (policy.arguments, policy.when, policy.scope, " ".join(ask.path for ask in case.asks))
        wanted = (policy.kind, case.spoken, policy.side) == (kind, protocol, side)
        if wanted and all(any(word in each for each in words) for word in about):
            return case
    raise LookupError(f"no case of `{kind}` at {side} on {protocol} with {about}")


def pair(first: str, second: str, protocol: Protocol, sides: tuple[Side, Side], about: str = "") -> Case:
    """The first case of two kinds, in this order, on these sides."""
    for case in _pairs():
        one, other = case.policies
        same = (one.kind, other.kind, case.protocol) == (first, second, protocol)
        if same and (one.side, other.side) == sides and about in one.when + other.when:
            return case
    raise LookupError(f"no case of `{first}` and `{second}` on {protocol} at {sides}")


@cache
def _singles() -> Sequence[Case]:
    return singles()


@cache
def _pairs() -> Sequence[Case]:
    return pairs()


def _one(about: str, title: str, case: Case, edit: Edit) -> Mutant:
    side = case.policies[-1].side
    assert side is not None
    return Mutant(about, title, case, side, edit)


def _placed(about: str, title: str, case: Case, *sides: Sides) -> Mutant:
    side = case.policies[-1].side
    assert side is not None
    return Mutant(about, title, case, side, None, sides)


def _dropped() -> list[Mutant]:
    chosen = [
        ("deny", HTTP, IN),
        ("rate_limit", HTTP, OUT),
        ("jwt", GRPC, IN),
        ("set_request_header", GRPC, OUT),
        ("set_response_header", HTTP, IN),
        ("compression", HTTP, OUT),
        ("external_authorization", HTTP, IN),
        ("cors", HTTP, IN),
        ("buffer_limit", HTTP, OUT),
        ("lua", GRPC, IN),
        ("wasm", HTTP, OUT),
        ("mine", HTTP, IN),
        ("rewrite_path", HTTP, OUT),
        ("request_count", GRPC, OUT),
        ("tap", HTTP, IN),
        ("fault_abort", GRPC, IN),
        ("connection_rate_limit", TCP, OUT),
        ("access_log", TCP, IN),
    ]
    about = "an enforcement is missing"
    found = [
        _one(about, "its filter is left out", single(kind, protocol, side), without(f"_{kind}"))
        for kind, protocol, side in chosen
    ]
    return [
        *found,
        _one(about, "the route repeats nothing", single("retry", HTTP, OUT), away("retry_policy")),
        _one(about, "the route copies nothing", single("mirror", GRPC, OUT), away("request_mirror_policies")),
        _one(about, "the route waits for ever", single("timeout", HTTP, OUT), routes(_wait_for_ever)),
        _one(about, "the cluster puts nobody out", single("outlier_detection", HTTP, OUT), away("outlier_detection")),
        _one(
            about,
            "the refused are let through",
            single("allow", TCP, IN, "[a]", "{a, c}"),
            _let_through,
        ),
        _one(about, "the cluster lets everybody in", single("circuit_breaking", HTTP, IN), put("max_requests", 1000)),
    ]


def _wait_for_ever(route: dict[str, Any]) -> None:
    if route.get("timeout") not in (None, "0s"):
        route["timeout"] = "0s"


def _let_through(hop: Json) -> Json:
    return every("cluster", lambda name: hop["listener"]["name"] if name.startswith("refused") else name)(hop)


def _sides() -> list[Mutant]:
    twice, lost, turned = "an enforcement on both sides", "an enforcement on neither side", "sides turned round"
    both = (IN, OUT)
    return [
        _placed(twice, "at both ends", single("add_request_header", HTTP, IN), both),
        _placed(twice, "at both ends", single("add_response_header", GRPC, OUT), both),
        _placed(twice, "at both ends", single("request_count", HTTP, IN), both),
        _placed(twice, "at both ends", single("access_log", TCP, OUT), both),
        _placed(twice, "at both ends", single("fault_delay", GRPC, OUT), both),
        _placed(lost, "at no end", single("rate_limit", GRPC, IN), ()),
        _placed(lost, "at no end", single("allow", TCP, OUT, "[a]", "{a, c}"), ()),
        _placed(lost, "at no end", single("allow", HTTP, OUT, "[a]", "{a, c}"), ()),
        _placed(turned, "the quota counts requests", pair("retry", "rate_limit", HTTP, (OUT, IN)), (OUT,), (OUT,)),
        _placed(turned, "the timeout covers no delay", pair("timeout", "fault_delay", HTTP, (OUT, IN)), (OUT,), (OUT,)),
        _placed(
            turned,
            "requests are counted, not attempts",
            pair("retry", "request_count", GRPC, (OUT, IN)),
            (OUT,),
            (OUT,),
        ),
        _placed(
            turned,
            "the match sees the sender's header",
            pair("set_request_header", "deny", HTTP, (OUT, IN), 'header("x-in")'),
            (IN,),
            (OUT,),
        ),
        _placed(turned, "what was refused is counted", pair("deny", "request_count", GRPC, (OUT, IN)), (IN,), (OUT,)),
    ]


def _orders() -> list[Mutant]:
    about = "two filters in the wrong order"
    return [
        *(
            _one(about, "the second comes first", case, swapped(*(f"_{each.kind}" for each in case.policies)))
            for case in (
                pair("rate_limit", "deny", HTTP, (IN, IN)),
                pair("request_count", "fault_abort", GRPC, (OUT, OUT)),
                pair("set_request_header", "remove_request_header", HTTP, (OUT, OUT)),
                pair("set_request_header", "deny", HTTP, (IN, IN), 'header("x-in")'),
                pair("rewrite_path", "request_count", HTTP, (IN, IN), "/new"),
                pair("fault_delay", "deny", HTTP, (OUT, OUT)),
            )
        ),
        _one(
            "another stage",
            "all attempts together, not each",
            pair("retry", "timeout", HTTP, (OUT, OUT)),
            routes(lambda route: _renamed(route["retry_policy"], "per_try_timeout", route, "timeout")),
        ),
        _one(
            "another stage",
            "each attempt, not all together",
            pair("timeout", "retry", GRPC, (OUT, OUT)),
            routes(lambda route: _renamed(route, "timeout", route["retry_policy"], "per_try_timeout")),
        ),
    ]


def _renamed(holder: dict[str, Any], name: str, into: dict[str, Any], other: str) -> None:
    into[other] = holder.pop(name)
    if name == "timeout":
        holder[name] = "0s"


def _ports() -> list[Mutant]:
    about = "the wrong port or service"
    return [
        _one(about, "the port beside it", single("set_request_header", HTTP, IN), _port_beside),
        _one(about, "the port beside it", single("jwt", GRPC, OUT), _port_beside),
        _one(about, "the port beside it", single("access_log", TCP, OUT), _port_beside),
        _one(about, "copies go to the service itself", single("mirror", HTTP, OUT), _copies_home),
        _one(about, "nobody goes elsewhere", single("split", GRPC, OUT, "100%"), every("weighted_clusters", _stay)),
    ]


def _port_beside(hop: Json) -> Json:
    return {**hop, "clusters": [every("port_value", lambda number: number + 1)(each) for each in hop["clusters"]]}


def _copies_home(hop: Json) -> Json:
    home = hop["listener"]["name"]
    return every("request_mirror_policies", lambda each: [{**copy, "cluster": home} for copy in each])(hop)


def _matches() -> list[Mutant]:
    about, caller = "another match", "the wrong caller"
    header, path = 'header("x-deny")', 'path == "/admin"'
    return [
        _one(about, "the opposite", single("deny", HTTP, OUT, header), negated("_deny")),
        _one(about, "the opposite", single("fault_abort", GRPC, OUT, "x-abort"), negated("_fault_abort")),
        _one(about, "none", single("deny", GRPC, OUT, header), always("_deny")),
        _one(about, "none", single("request_count", HTTP, OUT, "method"), always("_request_count")),
        _one(about, "another header", single("deny", HTTP, IN, header), says("x-deny", "x-denied")),
        _one(about, "another value", single("fault_delay", HTTP, OUT, "x-slow"), says("]*1[", "]*2[")),
        _one(about, "one element of a list only", single("deny", HTTP, IN, header), every("value_match", _whole)),
        _one(about, "another path", single("deny", HTTP, IN, path), says("/admin", "/admins")),
        _one(about, "a prefix instead of the path", single("deny", HTTP, OUT, path), says("/admin?", "/admin")),
        _one(about, "the query belongs to the path", single("deny", HTTP, OUT, path), says("/admin?", "/admin?b")),
        _one(about, "another method", single("request_count", HTTP, IN, "method"), says("POST", "PUT")),
        _one(about, "a route for all", pair("remove_request_header", "retry", HTTP, (OUT, OUT), "x-in"), _unmatched),
        _one(
            about,
            "one status more",
            single("retry", GRPC, OUT, "attempts: 3"),
            _internal_too,
        ),
        _one(caller, "whoever it is", single("deny", HTTP, IN), always("_deny")),
        _one(caller, "somebody else", single("rate_limit", HTTP, IN, "{a, c}"), every("cidr_ranges", _first)),
        _one(caller, "one address of two", single("connection_rate_limit", TCP, IN), put("cidr_ranges", NOBODY)),
        _one(caller, "an address in a list", single("allow", GRPC, IN, "[a]", "{a, c}"), _caller_too(8)),
        _one(caller, "an address in a list", single("allow", HTTP, IN, "[c]"), _caller_too(8)),
        _one(caller, "nobody", single("allow", HTTP, IN, "[a]", "*"), put("address_prefix", "192.0.2.1", "_allow")),
        _one(
            caller,
            "whoever it is",
            single("allow", TCP, IN, "[a]", "{a, c}"),
            put("cidr_ranges", NOBODY),
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


def _arguments() -> list[Mutant]:
    about = "another argument"

    def of(kind: str, protocol: Protocol, side: Side, key: str, value: Any, *words: str) -> Mutant:
        return _one(about, f"`{key}` is {value}", single(kind, protocol, side, *words), put(key, value))

    return [
        of("rate_limit", HTTP, IN, "max_tokens", 4, "requests: 3"),
        of("rate_limit", GRPC, OUT, "max_tokens", 1, "burst: 2"),
        of("rate_limit", HTTP, OUT, "fill_interval", "0.100s", "requests: 3"),
        of("rate_limit", HTTP, IN, "tokens_per_fill", 1, "requests: 2"),
        _one(
            about,
            "the refusal speaks http",
            single("rate_limit", GRPC, IN, "requests: 3"),
            away("rate_limited_as_resource_exhausted"),
        ),
        of("connection_rate_limit", TCP, IN, "max_tokens", 2, "connections: 3"),
        of("circuit_breaking", HTTP, IN, "max_requests", 3, "max_requests: 2"),
        of("circuit_breaking", GRPC, IN, "max_requests", 1, "max_requests: 2"),
        of("buffer_limit", HTTP, IN, "max_request_bytes", 49),
        of("retry", HTTP, OUT, "num_retries", 1, "attempts: 3"),
        of("retry", GRPC, OUT, "num_retries", 3, "attempts: 3"),
        of("retry", HTTP, OUT, "retriable_status_codes", [500], "attempts: 3"),
        of("retry", HTTP, OUT, "retry_on", "connect-failure,gateway-error", "server_error"),
        _one(about, "`timeout` is 5s", single("timeout", GRPC, OUT), _longer),
        of("outlier_detection", HTTP, OUT, "consecutive_5xx", 3),
        _one(about, "all are copied", single("mirror", HTTP, OUT, "50%"), put("numerator", 1_000_000)),
        _one(about, "one in five", single("split", HTTP, OUT, "50%"), every("weighted_clusters", _one_in_five)),
        of("fault_abort", HTTP, OUT, "numerator", 900_000, "50%"),
        of("fault_abort", GRPC, IN, "http_status", 503, "418"),
        of("fault_delay", HTTP, IN, "fixed_delay", "0.050s", "450ms"),
        _one(about, "another value", single("set_request_header", HTTP, OUT), says("policy", "nobody")),
        _one(about, "another value", single("set_response_header", GRPC, IN), says("policy", "nobody")),
        _one(about, "added instead of set", single("set_request_header", GRPC, IN), _added),
        _one(about, "another header goes", single("remove_request_header", HTTP, IN), says("x-in", "x-inner")),
        _one(about, "on the request", single("set_response_header", HTTP, OUT), _turned),
        _one(about, "another path", single("rewrite_path", HTTP, IN), says("/new", "/newer")),
        _one(about, "another audience", single("jwt", HTTP, OUT), put("audiences", ["elsewhere"])),
        _one(about, "any audience", single("jwt", HTTP, IN), away("audiences")),
        _one(about, "another issuer", single("jwt", GRPC, IN), put("issuer", "https://other.example")),
        _one(about, "the token is taken off", single("jwt", GRPC, OUT), put("forward", False)),
        _one(about, "another origin", single("cors", HTTP, IN), says("https://shop", "https://mall")),
        _one(about, "no credentials", single("cors", HTTP, OUT), put("allow_credentials", False)),
        _one(about, "short answers stay", single("compression", HTTP, IN), put("min_content_length", 100_000)),
        _one(
            about,
            "who cannot be asked has admitted",
            single("external_authorization", HTTP, IN, "service: judge"),
            besides("http_service", failure_mode_allow=True),
        ),
    ]


def _longer(hop: Json) -> Json:
    return routes(lambda route: route.update(timeout="5s"))(hop)


def _stay(weighted: Json) -> Json:
    home, elsewhere = weighted["clusters"]
    return {"clusters": [{**home, "weight": elsewhere["weight"]}, {**elsewhere, "weight": home["weight"]}]}


def _one_in_five(weighted: Json) -> Json:
    home, elsewhere = weighted["clusters"]
    return {"clusters": [{**home, "weight": 800_000}, {**elsewhere, "weight": 200_000}]}


def _added(hop: Json) -> Json:
    return every("append_action", lambda _: "APPEND_IF_EXISTS_OR_ADD", "_set_request_header")(hop)


def _turned(hop: Json) -> Json:
    return every("mutations", lambda each: {"request_mutations": each["response_mutations"]}, "_header")(hop)


def _transparency() -> list[Mutant]:
    about = "what no policy asked for"

    def of(title: str, protocol: Protocol, side: Side, change: Change, path: str = "") -> Mutant:
        return _one(about, title, single("request_count", protocol, side, path), connections(change))

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
        _one(
            about,
            "the proxy says how long it took",
            single("lua", HTTP, OUT),
            away("suppress_envoy_headers"),
        ),
        _one(about, "the route's own patience", single("request_count", HTTP, OUT), _impatient),
        _one(about, "the route's own patience", single("request_count", GRPC, IN), _impatient),
        _one(about, "no route for the rest", single("fault_delay", HTTP, IN, "x-slow"), every("routes", _tunnels)),
    ]


def _impatient(hop: Json) -> Json:
    return routes(lambda route: route.pop("timeout"))(hop)


def _tunnels(found: list[Json]) -> list[Json]:
    return [each for each in found if "connect_matcher" in each["match"]]


def mutants() -> list[Mutant]:
    """All of them, in the order of the table."""
    return [
        *_dropped(),
        *_sides(),
        *_orders(),
        *_ports(),
        *_matches(),
        *_arguments(),
        *_transparency(),
    ]
