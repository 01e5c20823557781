"""Mutants whose ADM has another argument than the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl.program import Protocol, Side
from tests.fidelity.mutant import one, single
from tests.fidelity.mutants_edits import away, besides, every, put, routes, says

if TYPE_CHECKING:
    from tests.fidelity.mutant import Mutant
    from tests.fidelity.mutants_edits import Json

IN, OUT = Side.INGRESS, Side.EGRESS
HTTP, GRPC, TCP = Protocol.HTTP, Protocol.GRPC, Protocol.TCP
SUBDOMAINS = r"(?:[a-z0-9_-]+\.)+"


def arguments() -> list[Mutant]:
    """Each changes one argument of one case."""
    about = "another argument"

    def of(kind: str, protocol: Protocol, side: Side, key: str, value: Any, *words: str) -> Mutant:
        return one(about, f"`{key}` is {value}", single(kind, protocol, side, *words), put(key, value))

    return [
        of("rate_limit", HTTP, IN, "max_tokens", 4, "requests: 3"),
        of("rate_limit", GRPC, OUT, "max_tokens", 1, "burst: 2"),
        of("rate_limit", HTTP, OUT, "fill_interval", "0.100s", "requests: 3"),
        of("rate_limit", HTTP, IN, "tokens_per_fill", 1, "requests: 2"),
        one(
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
        one(about, "`timeout` is 5s", single("timeout", GRPC, OUT), _longer),
        of("outlier_detection", HTTP, OUT, "consecutive_5xx", 3),
        one(about, "all are copied", single("mirror", HTTP, OUT, "50%"), put("numerator", 1_000_000)),
        one(about, "one in five", single("split", HTTP, OUT, "50%"), every("weighted_clusters", _one_in_five)),
        of("fault_abort", HTTP, OUT, "numerator", 900_000, "50%"),
        of("fault_abort", GRPC, IN, "http_status", 503, "418"),
        of("fault_delay", HTTP, IN, "fixed_delay", "0.050s", "450ms"),
        one(about, "another value", single("set_request_header", HTTP, OUT), says("policy", "another")),
        one(about, "another value", single("set_response_header", GRPC, IN), says("policy", "another")),
        one(about, "added instead of set", single("set_request_header", GRPC, IN), _added),
        one(about, "another header goes", single("remove_request_header", HTTP, IN), says("x-in", "x-inner")),
        one(about, "on the request", single("set_response_header", HTTP, OUT), _turned),
        one(about, "another path", single("rewrite_path", HTTP, IN), says("/new", "/newer")),
        one(about, "what is left", single("rewrite_path", HTTP, OUT, 'to: ""'), says('"/" .. rest', "rest")),
        one(about, "every slash stays", single("rewrite_path", HTTP, IN, 'to: ""'), says("^/*(", "^/?(")),
        one(about, "dots are admitted", single("normal_paths", HTTP, OUT), says("\\.?[/?]", "x")),
        one(about, "needless escapes are admitted", single("normal_paths", HTTP, IN), says("[46][1-9A-F]", "x")),
        one(about, "the query is a part of the path", single("normal_paths", HTTP, IN), says("[^?]*", ".*")),
        one(about, "another status for a path", single("normal_paths", HTTP, OUT), put("http_status", 403)),
        one(about, "another audience", single("jwt", HTTP, OUT), put("audiences", ["elsewhere"])),
        one(about, "any audience", single("jwt", HTTP, IN), away("audiences")),
        one(about, "another issuer", single("jwt", GRPC, IN), put("issuer", "https://other.example")),
        one(about, "the token is taken off", single("jwt", GRPC, OUT), put("forward", False)),
        one(about, "another origin", single("cors", HTTP, IN), says("https://shop", "https://mall")),
        one(about, "a star for all letters", single("cors", HTTP, IN, "*.shop"), says(SUBDOMAINS, ".*")),
        one(about, "a star for no subdomain", single("cors", HTTP, OUT, "*.shop"), says(SUBDOMAINS, "")),
        one(about, "no credentials", single("cors", HTTP, OUT), put("allow_credentials", False)),
        one(about, "short answers stay", single("compression", HTTP, IN), put("min_content_length", 100_000)),
        one(
            about,
            "who cannot be asked has admitted",
            single("external_authorization", HTTP, IN, "service: judge"),
            besides("http_service", failure_mode_allow=True),
        ),
    ]


def _longer(hop: Json) -> Json:
    return routes(lambda route: route.update(timeout="5s"))(hop)


def _one_in_five(weighted: Json) -> Json:
    home, elsewhere = weighted["clusters"]
    return {"clusters": [{**home, "weight": 800_000}, {**elsewhere, "weight": 200_000}]}


def _added(hop: Json) -> Json:
    return every("append_action", lambda _: "APPEND_IF_EXISTS_OR_ADD", "_set_request_header")(hop)


def _turned(hop: Json) -> Json:
    return every("mutations", lambda each: {"request_mutations": each["response_mutations"]}, "_header")(hop)
