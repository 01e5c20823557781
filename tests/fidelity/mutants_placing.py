"""Mutants whose policies stand elsewhere than was decided: nowhere, at both ends, at the other end, or out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl.program import Place, Protocol, Side
from tests.fidelity.mutant import one, pair, placed, single
from tests.fidelity.mutants_edits import away, every, put, routes, swapped, without

if TYPE_CHECKING:
    from tests.fidelity.mutant import Mutant
    from tests.fidelity.mutants_edits import Json

IN, OUT = Side.INGRESS, Side.EGRESS
HTTP, GRPC, TCP = Protocol.HTTP, Protocol.GRPC, Protocol.TCP


def dropped() -> list[Mutant]:
    """Enforcements that are missing."""
    chosen = [
        ("deny", HTTP, IN),
        ("rate_limit", HTTP, OUT),
        ("jwt", GRPC, IN),
        ("normal_paths", HTTP, IN),
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
        one(about, "its filter is left out", single(kind, protocol, side), without(f"_{kind}"))
        for kind, protocol, side in chosen
    ]
    return [
        *found,
        one(about, "the route repeats nothing", single("retry", HTTP, OUT), away("retry_policy")),
        one(about, "the route copies nothing", single("mirror", GRPC, OUT), away("request_mirror_policies")),
        one(about, "the route waits for ever", single("timeout", HTTP, OUT), routes(_wait_for_ever)),
        one(about, "the cluster ejects none", single("outlier_detection", HTTP, OUT), away("outlier_detection")),
        one(
            about,
            "the refused are let through",
            single("allow", TCP, IN, "[a]", "{a, c}"),
            _let_through,
        ),
        one(about, "the cluster admits all", single("circuit_breaking", HTTP, IN), put("max_requests", 1000)),
    ]


def _wait_for_ever(route: dict[str, Any]) -> None:
    if route.get("timeout") not in (None, "0s"):
        route["timeout"] = "0s"


def _let_through(hop: Json) -> Json:
    return every("cluster", lambda name: hop["listener"]["name"] if name.startswith("refused") else name)(hop)


def places() -> list[Mutant]:
    """Policies at both ends, at no end, or at the other end."""
    twice, lost, turned = "an enforcement on both sides", "an enforcement on neither side", "sides turned round"
    return [
        placed(twice, "at both ends", single("add_request_header", HTTP, IN), Place.BOTH),
        placed(twice, "at both ends", single("add_response_header", GRPC, OUT), Place.BOTH),
        placed(twice, "at both ends", single("request_count", HTTP, IN), Place.BOTH),
        placed(twice, "at both ends", single("access_log", TCP, OUT), Place.BOTH),
        placed(twice, "at both ends", single("fault_delay", GRPC, OUT), Place.BOTH),
        placed(lost, "at no end", single("rate_limit", GRPC, IN), None),
        placed(lost, "at no end", single("allow", TCP, OUT, "[a]", "{a, c}"), None),
        placed(lost, "at no end", single("allow", HTTP, OUT, "[a]", "{a, c}"), None),
        placed(
            turned,
            "the quota counts requests",
            pair("retry", "rate_limit", HTTP, (OUT, IN)),
            Place.EGRESS,
            Place.EGRESS,
        ),
        placed(
            turned,
            "the timeout covers no delay",
            pair("timeout", "fault_delay", HTTP, (OUT, IN)),
            Place.EGRESS,
            Place.EGRESS,
        ),
        placed(
            turned,
            "requests are counted, not attempts",
            pair("retry", "request_count", GRPC, (OUT, IN)),
            Place.EGRESS,
            Place.EGRESS,
        ),
        placed(
            turned,
            "the match sees the sender's header",
            pair("set_request_header", "deny", HTTP, (OUT, IN), 'header("x-in")'),
            Place.INGRESS,
            Place.EGRESS,
        ),
        placed(
            turned,
            "what was refused is counted",
            pair("deny", "request_count", GRPC, (OUT, IN)),
            Place.INGRESS,
            Place.EGRESS,
        ),
    ]


def orders() -> list[Mutant]:
    """Policies in another order, or at another stage."""
    about = "two filters in the wrong order"
    return [
        *(
            one(about, "the second comes first", case, swapped(*(f"_{each.kind}" for each in case.policies)))
            for case in (
                pair("rate_limit", "deny", HTTP, (IN, IN)),
                pair("request_count", "fault_abort", GRPC, (OUT, OUT)),
                pair("set_request_header", "remove_request_header", HTTP, (OUT, OUT)),
                pair("set_request_header", "deny", HTTP, (IN, IN), 'header("x-in")'),
                pair("rewrite_path", "request_count", HTTP, (IN, IN), "/new"),
                pair("fault_delay", "deny", HTTP, (OUT, OUT)),
            )
        ),
        one(
            "another stage",
            "all attempts together, not each",
            pair("retry", "timeout", HTTP, (OUT, OUT)),
            routes(lambda route: _renamed(route["retry_policy"], "per_try_timeout", route, "timeout")),
        ),
        one(
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
