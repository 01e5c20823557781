"""One document of addresses for several programs, as a cluster gives it: each takes its own, and keeps the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admc.base.exits import CommandError
from admc.serve.compiling.source import Source, State, read, with_endpoints
from admc.serve.publication.addresses import during, elsewhere
from emitters.addresses.model import ServiceAddresses
from emitters.envoy import Mode

BOTH = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
"""
LESS = "app shop\nservice web { http 8080 }\n"
OTHER = "app shop\nservice web { http 8080 }\nservice till { http 8082 }\n"


def addresses(**pods: str) -> bytes:
    return json.dumps({"services": {name: {"pods": [at]} for name, at in pods.items()}}).encode()


def state(text: str, content: bytes, mode: Mode = Mode.POD) -> State:
    files = {"policies.adm": text.encode()}
    found = read(Source(Path("policies.adm"), mode, files=files), (content,))
    assert found.state is not None, found.findings
    return found.state


def pods(state: State) -> dict[str, tuple[str, ...]]:
    return {name: located.pods for name, located in sorted(state.addresses.services.items())}


def test_a_program_ignores_the_services_of_others_in_a_cluster_alone() -> None:
    found = state(LESS, addresses(web="10.1.0.1", cart="10.1.0.2"))
    assert pods(found) == {"web": ("10.1.0.1",)}
    assert found.addresses.others == {"cart": ServiceAddresses((), ("10.1.0.2",))}
    with pytest.raises(CommandError, match="unknown name `cart`"):
        with_endpoints(state(LESS, b"{}", Mode.REDIRECT), addresses(cart="10.1.0.2"))
    with pytest.raises(CommandError, match="not an address"):
        with_endpoints(found, addresses(cart="nowhere"))


def test_what_only_the_old_program_has_is_where_the_cluster_says_now() -> None:
    old = state(BOTH, addresses(web="10.1.0.1", cart="10.1.0.2"))
    new = state(LESS, addresses(web="10.1.0.3", cart="10.1.0.4"))
    assert pods(during(old, new)) == pods(elsewhere(old, new)) == {"cart": ("10.1.0.4",), "web": ("10.1.0.3",)}
    # After a restart the old plan was built without addresses.
    assert pods(during(state(BOTH, b"{}"), new)) == {"cart": ("10.1.0.4",), "web": ("10.1.0.3",)}


def test_a_service_that_the_cluster_does_not_list_any_more_is_not_located() -> None:
    """Its address may be another pod's by now."""
    old = state(BOTH, addresses(web="10.1.0.1", cart="10.1.0.2"))
    assert pods(during(old, state(LESS, addresses(web="10.1.0.1")))) == {"web": ("10.1.0.1",)}


def test_an_address_that_a_service_of_the_new_program_has_is_not_the_others() -> None:
    old = state(BOTH, addresses(web="10.1.0.1", cart="10.1.0.2"))
    new = state(OTHER, addresses(web="10.1.0.1", cart="10.1.0.2", till="10.1.0.2"))
    assert pods(during(old, new)) == {"cart": (), "till": ("10.1.0.2",), "web": ("10.1.0.1",)}


def test_addresses_go_on_through_several_plans() -> None:
    """The base of a move, its goal, and a newer plan that waits."""
    first = state(BOTH, addresses(web="10.1.0.1", cart="10.1.0.2"))
    second = state(LESS, addresses(web="10.1.0.1", cart="10.1.0.2"))
    third = state(OTHER, addresses(web="10.1.0.1", cart="10.1.0.9", till="10.1.0.3"))
    assert pods(during(elsewhere(first, third), elsewhere(second, third)))["cart"] == ("10.1.0.9",)


def test_each_plan_of_a_move_keeps_what_the_newest_program_does_not_declare() -> None:
    both = addresses(web="10.1.0.1", cart="10.1.0.2", till="10.1.0.3")
    base, goal = state(BOTH, both), state(OTHER, both)
    newest = state(LESS, addresses(web="10.1.0.1", cart="10.1.0.8", till="10.1.0.9"))
    found = during(elsewhere(base, newest), elsewhere(goal, newest))
    assert pods(found) == {"cart": ("10.1.0.8",), "till": ("10.1.0.9",), "web": ("10.1.0.1",)}
