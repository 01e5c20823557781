"""Addresses that are missing or shared are refused before they let a call pass its policies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.codes.envoy import CODES
from emitters.envoy import AdmResources, Mode, emit
from emitters.envoy.bootstrap import static_json
from emitters.envoy.messages.typed import to_json, to_yaml
from emitters.errors import EmitError
from tests.emitters.envoy.support import ENVOY, load, validate

if TYPE_CHECKING:
    from pathlib import Path

BASE = """
external internet
service a { http 80 -> 8080 }
service b { http 80 -> 8081 }
service c { http 80 -> 8082 }
service store { tcp 90 -> 9090 }
call internet -> a
call a -> b
call a, b -> store
"""
A, B, C = (
    ServiceAddresses(("10.96.0.1",), ("10.1.0.1",)),
    ServiceAddresses(("10.96.0.2",), ("10.1.0.2",)),
    ServiceAddresses(("10.96.0.3",)),
)
STORE = ServiceAddresses(("10.96.0.9",), ("10.1.0.9",))
ALL = {"a": A, "b": B, "c": C, "store": STORE}

HEADLESS = """
service a { http 80 }
service d {
  http x 8080 -> 9090
  http y 9999 -> 8080
}
call a -> d:x, d:y
"""
NO_SERVICE_ADDRESS = Addresses({"a": A, "d": ServiceAddresses((), ("10.1.0.4",))})


def _emit(text: str, addresses: Addresses, *, waiting: bool = False) -> tuple[AdmResources, ...]:
    program, placement = load(text)
    return emit(program, placement, addresses, Mode.REDIRECT, waiting=waiting)


def _without(name: str) -> Addresses:
    return Addresses({other: located for other, located in ALL.items() if other != name})


REFUSED: dict[str, tuple[str, str, Addresses]] = {
    "a destination of requests": ("ADM717", BASE + "policy t = timeout(after: 1s) on a -> b", _without("b")),
    "a destination of connections": (
        "ADM717",
        BASE + "@egress\npolicy t = connection_rate_limit(connections: 9, per: 1s) on a -> store",
        _without("store"),
    ),
    "two hosts at one port": (
        "ADM717",
        BASE
        + 'external maps { http 8000  host "maps.example" }\nexternal mail { http 8000  host "mail.example" }\n'
        + "call a -> maps, mail\npolicy t = timeout(after: 1s) on a -> maps",
        Addresses(ALL),
    ),
    "a host at a service's target port": (
        "ADM717",
        BASE
        + 'external maps { http 8081  host "maps.example" }\ncall a -> maps\n'
        + "policy t = timeout(after: 1s) on a -> maps",
        Addresses(ALL),
    ),
    "a host that has addresses besides, at a port that is not its own": (
        "ADM717",
        BASE
        + 'external maps { http 8000  host "maps.example"  cidr "192.168.7.0/24" }\n'
        + 'external mail { http 8000  host "192.168.9.1" }\n'
        + "call a -> maps, mail\npolicy t = timeout(after: 1s) on a -> maps",
        Addresses(ALL),
    ),
    "a caller of requests": (
        "ADM718",
        BASE + '@ingress\npolicy h = set_request_header(name: "x", value: "1") on a -> b',
        _without("a"),
    ),
    "a caller of connections": (
        "ADM718",
        BASE + "@ingress\npolicy d = deny() on a -> store",
        _without("a"),
    ),
    "a caller that a guard is about and that declares no call": (
        "ADM718",
        BASE + "policy d = deny() on c -> b",
        Addresses(ALL),
    ),
    "a caller of a policy on all but the outside": (
        "ADM718",
        BASE + "policy d = deny() on * except internet -> b",
        Addresses(ALL),
    ),
    "a caller that would be taken for the outside": (
        "ADM718",
        BASE + "policy d = deny() on internet -> b",
        _without("a"),
    ),
    "a caller that is excepted": (
        "ADM718",
        BASE + '@ingress\npolicy h = set_request_header(name: "x", value: "1") on * except a -> b',
        _without("a"),
    ),
    "a service inside an outside party": (
        "ADM716",
        BASE
        + 'external office { http 80  host "10.96.0.3" }\ncall a -> office\n'
        + "policy t = timeout(after: 1s) on a -> office",
        Addresses(ALL),
    ),
    "two parties at one address": (
        "ADM716",
        BASE + "call a -> c\npolicy t = timeout(after: 1s) on a -> {b, c}",
        Addresses({**ALL, "b": C}),
    ),
    "a policy on one of two ports of one target": (
        "ADM716",
        """
external internet
service a {
  http web 80 -> 8080
  http api 81 -> 8080
}
call internet -> a:web, a:api
policy x = set_response_header(name: "x-a", value: "1") on * -> a:web
""",
        Addresses(ALL),
    ),
    "the same at the sender": (
        "ADM716",
        """
service a { http 80 }
service b {
  http web 80 -> 8080
  http api 81 -> 8080
}
call a -> b:web, b:api
policy x = timeout(after: 1s) on a -> b:web
""",
        Addresses(ALL),
    ),
    "a headless port that another port leads to": (
        "ADM716",
        HEADLESS + "policy p = timeout(after: 1s) on a -> d:x\npolicy q = timeout(after: 2s) on a -> d:y",
        NO_SERVICE_ADDRESS,
    ),
    "a policy on the port that is dialled by number": (
        "ADM716",
        HEADLESS + "policy p = timeout(after: 1s) on a -> d:x",
        NO_SERVICE_ADDRESS,
    ),
    "a policy on the port that leads there": (
        "ADM716",
        HEADLESS + "policy p = timeout(after: 1s) on a -> d:y",
        NO_SERVICE_ADDRESS,
    ),
    "one policy that chooses between the endpoints of either": (
        "ADM716",
        HEADLESS + "policy p = load_balancing(policy: random) on a -> d",
        NO_SERVICE_ADDRESS,
    ),
}


@pytest.mark.parametrize(("code", "text", "addresses"), REFUSED.values(), ids=REFUSED)
def test_refused(code: str, text: str, addresses: Addresses) -> None:
    with pytest.raises(EmitError) as caught:
        _emit(text, addresses)
    assert {found.code for found in caught.value.diagnostics} == {code}
    for found in caught.value.diagnostics:
        assert found.code in CODES
        assert found.span is not None
        assert found.cause
        assert found.hint
        assert not found.message.endswith(".")


ACCEPTED: dict[str, tuple[str, Addresses]] = {
    "an admitted caller that is unknown is refused by the guard itself": (
        BASE + "policy g = allow(callers: [a, c]) on * -> b",
        _without("a"),
    ),
    "who is meant as a stranger need not be known": (
        BASE + "policy g = deny() on internet -> b",
        _without("c"),
    ),
    "every caller": (BASE + '@ingress\npolicy h = set_request_header(name: "x", value: "1") on * -> b', Addresses()),
    "two ports of one target under the same policy": (
        """
external internet
service a {
  http web 80 -> 8080
  http api 81 -> 8080
}
call internet -> a:web, a:api
policy x = set_response_header(name: "x-a", value: "1") on * -> a
""",
        Addresses(ALL),
    ),
    "two ports of one target called under the same policy": (
        """
service a { http 80 }
service b {
  http web 80 -> 8080
  http api 81 -> 8080
}
call a -> b:web, b:api
policy x = timeout(after: 1s) on a -> b
""",
        Addresses(ALL),
    ),
    "a headless port that another port leads to, under the same policies": (
        HEADLESS + "policy p = timeout(after: 1s) on a -> d",
        NO_SERVICE_ADDRESS,
    ),
    "a headless port that another port leads to, which is not called": (
        HEADLESS.replace(", d:y", "") + "policy p = timeout(after: 1s) on a -> d:x",
        NO_SERVICE_ADDRESS,
    ),
    "the same where the service has an address": (
        HEADLESS + "policy p = timeout(after: 1s) on a -> d:x\npolicy q = timeout(after: 2s) on a -> d:y",
        Addresses({"a": A, "d": ServiceAddresses(("10.96.0.4",), ("10.1.0.4",))}),
    ),
    "the same where it is enforced": (
        HEADLESS + "@ingress\npolicy p = fault_abort(418) on * -> d:x\n"
        "@ingress\npolicy q = fault_abort(419) on * -> d:y",
        NO_SERVICE_ADDRESS,
    ),
    "an address that another service has at another port": (
        BASE
        + 'external office { http 81  host "10.96.0.3" }\ncall a -> office\n'
        + "policy t = timeout(after: 1s) on a -> office",
        Addresses(ALL),
    ),
}


@pytest.mark.parametrize(("text", "addresses"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(text: str, addresses: Addresses) -> None:
    assert _emit(text, addresses)


@pytest.mark.parametrize("name", [name for name in REFUSED if REFUSED[name][0] in ("ADM717", "ADM718")])
@pytest.mark.skipif(ENVOY is None, reason="needs envoy")
def test_a_server_that_waits_for_addresses_serves_listeners_that_envoy_accepts(name: str, tmp_path: Path) -> None:
    _, text, addresses = REFUSED[name]
    found = _emit(text, addresses, waiting=True)
    for resources in found:
        assert resources.listeners
        path = tmp_path / f"{resources.service}.yaml"
        path.write_bytes(to_yaml(static_json(resources)))
        assert validate(path) == ""


# ---- the hop of a captured connection ----


def _matchers(resources: AdmResources, side: str, port: int) -> list[tuple[list[str], str]]:
    """What the listener makes of an address dialled at a port, first match first."""
    choice = to_json(resources.listeners[side])["filter_chain_matcher"]["matcher_tree"]["exact_match_map"]["map"]
    found = choice[str(port)]["matcher"]
    told = []
    for item in found["matcher_list"]["matchers"]:
        ranges = item["predicate"]["single_predicate"]["custom_match"]["typed_config"]["cidr_ranges"]
        listed = [f"{r['address_prefix']}/{r.get('prefix_len', 0)}" for r in ranges]
        told.append((listed, _chain(item["on_match"])))
    return [*told, ([], _chain(found["on_no_match"]))]


def _chain(on_match: Any) -> str:
    return str(on_match["action"]["typed_config"]["value"])


def test_a_connection_belongs_to_the_most_specific_network() -> None:
    text = (
        BASE
        + 'external office { http 80  cidr "10.0.0.0/8" }\nexternal branch { http 80  cidr "10.96.0.0/30" }\n'
        + "call a -> office\npolicy t = timeout(after: 1s) on a -> office"
    )
    (found,) = _emit(text, Addresses(ALL))
    # 10.1.0.2 and others are pods, which no caller dials at port 80.
    assert _matchers(found, "egress", 80) == [
        (["10.96.0.1/32", "10.96.0.2/32", "10.96.0.3/32"], "egress/passthrough"),
        (["10.96.0.0/30"], "egress/passthrough"),
        (["10.0.0.0/8"], "egress/office:80"),
        ([], "egress/passthrough"),
    ]


def test_a_party_inside_another_keeps_its_policies() -> None:
    text = (
        BASE
        + 'external office { http 80  cidr "10.0.0.0/8" }\ncall a -> office\n'
        + "policy t = timeout(after: 1s) on a -> {office, b}"
    )
    (found,) = _emit(text, Addresses(ALL))
    assert _matchers(found, "egress", 80) == [
        (["10.96.0.2/32"], "egress/b:80"),
        (["10.96.0.1/32", "10.96.0.3/32"], "egress/passthrough"),
        (["10.0.0.0/8"], "egress/office:80"),
        ([], "egress/passthrough"),
    ]


@pytest.mark.parametrize("policy", ["", 'policy wide = set_request_header(name: "x-w", value: "1") on a -> office\n'])
def test_a_party_without_an_address_yet_may_be_inside_the_network_of_another(policy: str) -> None:
    text = """
external office { http 80  cidr "10.0.0.0/8" }
service a { http 80 }
service b { http 80 }
service c { http 80 }
call a -> b, c, office
policy p = set_request_header(name: "x-p", value: "1") on a -> b
pin p at egress
"""
    known = {"a": A, "c": C}
    (waiting,) = _emit(text + policy, Addresses(known), waiting=True)
    choice = to_json(waiting.listeners["egress"])["filter_chain_matcher"]["matcher_tree"]["exact_match_map"]["map"][
        "80"
    ]
    told: dict[str, str] = {}
    while "matcher" in choice:
        for item in choice["matcher"]["matcher_list"]["matchers"]:
            for found in item["predicate"]["single_predicate"]["custom_match"]["typed_config"]["cidr_ranges"]:
                told.setdefault(f"{found['address_prefix']}/{found['prefix_len']}", _chain(item["on_match"]))
        choice = choice["matcher"]["on_no_match"]
    assert _chain(choice) == "egress/closed"
    assert told.pop("10.0.0.0/8", "egress/closed") == "egress/closed"
    assert told == dict.fromkeys(("10.96.0.1/32", "10.1.0.1/32", "10.96.0.3/32"), "egress/passthrough")


def test_a_host_without_an_address_takes_its_port() -> None:
    text = (
        BASE
        + 'external maps { http 90  host "maps.example" }\ncall b -> maps\npolicy t = timeout(after: 1s) on b -> maps'
    ).replace("call a, b -> store", "call a -> store")
    (found,) = _emit(text, Addresses(ALL))
    assert _matchers(found, "egress", 90) == [
        (["10.96.0.9/32"], "egress/passthrough"),
        (["0.0.0.0/0", "::/0"], "egress/maps:90"),
        ([], "egress/passthrough"),
    ]


@pytest.mark.parametrize(
    ("known", "own"), [('cidr "192.168.7.0/24"', "192.168.7.0/24"), ('host "198.51.100.7"', "198.51.100.7/32")]
)
def test_a_host_takes_its_port_whatever_addresses_it_has_besides(known: str, own: str) -> None:
    text = (
        BASE
        + f'external e {{ http 8443  host "api.x.com"  {known} }}\ncall a -> e\n'
        + 'external wide { http 8443  cidr "192.168.0.0/16" }\nexternal near { http 8443  cidr "192.168.7.8/30" }\n'
        + "policy p = fault_abort(418) on a -> e"
    )
    (found,) = _emit(text, Addresses(ALL))
    told = _matchers(found, "egress", 8443)
    assert ([own], "egress/e:8443") in told
    assert told[-1] == ([], "egress/passthrough")
    assert told[-2] == (["0.0.0.0/0", "::/0"], "egress/e:8443")
    others = [network for networks, chain in told[:-1] if chain == "egress/passthrough" for network in networks]
    assert others == ["192.168.7.8/30", "192.168.0.0/16"]


def test_a_host_whose_addresses_are_in_the_endpoints_file_takes_those() -> None:
    text = (
        BASE
        + 'external e { http 8443  host "api.x.com"  cidr "192.168.7.0/24" }\ncall a -> e\n'
        + "policy p = fault_abort(418) on a -> e"
    )
    (found,) = _emit(text, Addresses(ALL, {"e": ("192.168.8.1",)}))
    assert _matchers(found, "egress", 8443) == [
        (["192.168.8.1/32"], "egress/e:8443"),
        (["192.168.7.0/24"], "egress/e:8443"),
        ([], "egress/passthrough"),
    ]


@pytest.mark.parametrize("address", ["10.1.0.7", "fd00::7"])
def test_without_an_ipv6_address_no_listener_is_on_ipv6(address: str) -> None:
    text = BASE + "policy t = timeout(after: 1s) on a -> b"
    (found,) = _emit(text, Addresses({**ALL, "c": ServiceAddresses((), (address,))}))
    listens = "additional_addresses" in to_json(found.listeners["egress"])
    assert listens == (":" in address)


# ---- limits that replicas share ----

LIMITED = BASE.replace("service b { http 80 -> 8081 }", "service b { http 80 -> 8081  replicas 3 }").replace(
    "service store { tcp 90 -> 9090 }", "service store { tcp 90 -> 9090  replicas 3 }"
)
LIMITS = (
    "@ingress\npolicy q = rate_limit(requests: 6, per: 1s) on * -> b\n"
    "@ingress\npolicy r = connection_rate_limit(connections: 6, per: 1s) on * -> store\n"
)


@pytest.mark.parametrize(("pods", "shares"), [(0, 3), (1, 3), (3, 3), (5, 5)])
def test_limits_are_shared_by_the_declared_or_the_known_replicas_whichever_are_more(pods: int, shares: int) -> None:
    more = {
        name: ServiceAddresses(ALL[name].addresses, tuple(f"10.1.{len(name)}.{index}" for index in range(1, pods + 1)))
        for name in ("b", "store")
    }
    http, tcp = _emit(LIMITED + LIMITS, Addresses({**ALL, **more}))
    (group,) = to_json(http.endpoints["siblings/b"])["endpoints"]
    assert len(group["lb_endpoints"]) == shares
    content = json.dumps(to_json(tcp.listeners["ingress"]))
    bucket = {"max_tokens": 6 // shares, "tokens_per_fill": 6, "fill_interval": f"{shares}s"}
    assert json.dumps(dict(sorted(bucket.items()))) in content


def test_an_address_in_each_family_is_one_replica() -> None:
    both = ServiceAddresses(
        (), ("10.1.3.1", "10.1.3.2", "10.1.3.3", "10.1.3.4", "fd00::1", "fd00::2", "fd00::3", "fd00::4")
    )
    http, _ = _emit(LIMITED + LIMITS, Addresses({**ALL, "b": both}))
    (group,) = to_json(http.endpoints["siblings/b"])["endpoints"]
    assert len(group["lb_endpoints"]) == 4


@pytest.mark.parametrize(
    "limit",
    [
        "rate_limit(requests: 2, per: 1s) on * -> b",
        "connection_rate_limit(connections: 9, per: 1s, burst: 2) on * -> store",
    ],
)
def test_a_limit_that_replicas_cannot_share(limit: str) -> None:
    program, placement = load(f"{LIMITED}@ingress\npolicy q = {limit}")
    with pytest.raises(EmitError) as caught:
        emit(program, placement, Addresses(ALL), Mode.REDIRECT)
    assert {found.code for found in caught.value.diagnostics} == {"ADM719"}
    # Without redirection there is one process of each service, whatever is declared.
    assert emit(program, placement, loopback(program), Mode.EXPLICIT)


def _passing(resources: AdmResources, side: str) -> Any:
    chains = to_json(resources.listeners[side])["filter_chains"]
    return next(chain for chain in chains if chain["name"] == f"{side}/passthrough")


def test_what_passed_through_is_closed_where_another_hop_comes_and_nowhere_else() -> None:
    """Envoy closes connections whose filter chain is not in the new listener, byte for byte."""
    policy = "\npolicy t = timeout(after: 1s) on a -> b"
    (one,) = _emit(BASE + policy, Addresses(ALL), waiting=True)
    (argument,) = _emit(BASE + policy.replace("1s", "2s"), Addresses(ALL), waiting=True)
    elsewhere = {**ALL, "b": ServiceAddresses(("10.96.0.2",), ("10.1.0.22", "10.1.0.23"))}
    (moved,) = _emit(BASE + policy, Addresses(elsewhere), waiting=True)
    assert _passing(one, "egress") == _passing(argument, "egress") == _passing(moved, "egress")
    more = "\npolicy few = connection_rate_limit(connections: 9, per: 1s) on a -> store\npin few at egress"
    two, *_ = _emit(BASE + policy + more, Addresses(ALL), waiting=True)
    assert two.service == one.service == "a"
    assert _passing(one, "egress") != _passing(two, "egress")
    assert _passing(one, "ingress") == _passing(two, "ingress")
