"""Whatever a client sends, the server keeps, shows and reads no more of it than a bound."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from tests.xds_server.transcript import world
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import REMEMBERED_NAMES, SharedResults
from xds_server.protocol.stream_bounds import MAX_CHARACTERS, MAX_UNANSWERED
from xds_server.protocol.wire import (
    MAX_CLAIMS,
    MAX_NAME,
    MAX_NAMES,
    DeltaRequest,
    TooMuchError,
    parse_delta,
    parse_sotw,
)
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES

WORLD = world("clusters a=1-; routes r=1>a")
LONG = "x" * (MAX_NAME + 1)


def many(number: int) -> tuple[str, ...]:
    return tuple(f"{each:x}" for each in range(number))


def test_answers_that_are_owed_are_bounded() -> None:
    stream = DeltaStream(WORLD, SharedResults())
    for _ in range(MAX_UNANSWERED + 1):
        stream.receive(DeltaRequest(ENDPOINTS, subscribe=("a",)))
    with pytest.raises(TooMuchError, match="more than 1,000 responses without an answer"):
        stream.receive(DeltaRequest(ENDPOINTS, subscribe=("a",)))


def test_a_client_that_acknowledges_may_go_on_for_ever() -> None:
    stream = DeltaStream(WORLD, SharedResults())
    nonce = ""
    for _ in range(MAX_UNANSWERED + 2):
        (response,) = stream.receive(DeltaRequest(ENDPOINTS, nonce=nonce, subscribe=("a",)))
        nonce = response.nonce


def test_names_in_answers_that_are_owed_are_bounded() -> None:
    names = many(1_000)
    stream = DeltaStream(world("endpoints " + " ".join(f"{name}=1" for name in names)), SharedResults())
    for _ in range(201):
        stream.receive(DeltaRequest(ENDPOINTS, subscribe=names))
    with pytest.raises(TooMuchError, match="more than 200,000 names without an answer"):
        stream.receive(DeltaRequest(ENDPOINTS, subscribe=names))


@pytest.mark.long
@pytest.mark.parametrize("type_url", [ENDPOINTS, "type.googleapis.com/no.such.Type"])
def test_answers_about_names_that_do_not_exist_are_bounded_more_closely(type_url: str) -> None:
    """Those that exist are shared with all streams, and these with none."""
    stream, names = DeltaStream(WORLD, SharedResults()), many(MAX_NAMES)
    for _ in range(3):
        (response,) = stream.receive(DeltaRequest(type_url, subscribe=names))
        stream.receive(DeltaRequest(type_url, nonce=response.nonce))
    for _ in range(2):
        stream.receive(DeltaRequest(type_url, subscribe=names))
    with pytest.raises(TooMuchError, match="about more than 20,000 names that do not exist without an answer"):
        stream.receive(DeltaRequest(type_url, subscribe=names))


def test_names_that_are_to_be_answered_later_are_bounded() -> None:
    """While clusters are not acknowledged, listeners are not sent: who never answers asks and takes back for ever."""
    stream = DeltaStream(world("clusters a=1-; listeners l=1"), SharedResults())
    stream.receive(DeltaRequest(CLUSTER))
    stream.receive(DeltaRequest(LISTENER, subscribe=("*",)))

    def ask_and_take_back() -> None:
        for turn in range(20):
            names = tuple(f"{turn}-{each}" for each in range(5_000))
            stream.receive(DeltaRequest(LISTENER, subscribe=names))
            stream.receive(DeltaRequest(LISTENER, unsubscribe=names))

    with pytest.raises(TooMuchError, match="more than 20,000 names on one stream"):
        ask_and_take_back()


def test_all_that_a_client_claims_to_have_is_bounded() -> None:
    stream = DeltaStream(world("clusters a=1-"), SharedResults())
    stream.receive(DeltaRequest(CLUSTER, initial=dict.fromkeys(many(MAX_CLAIMS - 10), "1")))
    with pytest.raises(TooMuchError, match="more than 100,000 resources from earlier streams on one stream"):
        stream.receive(DeltaRequest(ROUTES, subscribe=("*",), initial=dict.fromkeys(many(20), "1")))


def test_names_are_bounded_in_all_their_characters() -> None:
    stream = DeltaStream(WORLD, SharedResults())
    names = tuple(f"{each:x}".rjust(MAX_NAME, "x") for each in range(MAX_CHARACTERS // MAX_NAME))
    stream.receive(DeltaRequest(ENDPOINTS, subscribe=names))
    with pytest.raises(TooMuchError, match="names of more than 8,000,000 characters on one stream"):
        stream.receive(DeltaRequest(CLUSTER, subscribe=("y" * MAX_NAME,)))


@pytest.mark.parametrize("field", ["resource_names_subscribe", "resource_names_unsubscribe"])
def test_a_request_with_too_many_names_is_not_looked_through(field: str) -> None:
    request: Any = discovery_pb2.DeltaDiscoveryRequest(type_url=ENDPOINTS, **{field: ["a"] * (MAX_NAMES + 1)})
    with pytest.raises(TooMuchError, match="more than 20,000 names in one request"):
        parse_delta(request.SerializeToString())


def test_what_a_client_claims_to_have_is_bounded() -> None:
    request = discovery_pb2.DeltaDiscoveryRequest(type_url=CLUSTER)
    request.initial_resource_versions.update(dict.fromkeys(many(MAX_CLAIMS + 1), "1"))
    with pytest.raises(TooMuchError, match="more than 100,000 names in one request"):
        parse_delta(request.SerializeToString())


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"node": {"id": LONG}}, "a node's id"),
        ({"node": {"cluster": LONG}}, "a node's cluster"),
        ({"node": {"user_agent_name": LONG}}, "a user agent"),
        ({"type_url": LONG}, "a type"),
        ({"initial_resource_versions": {LONG: "1"}}, "a name"),
        ({"initial_resource_versions": {"a": LONG}}, "a version"),
    ],
)
def test_what_is_kept_logged_or_shown_is_short(fields: dict[str, Any], what: str) -> None:
    data = discovery_pb2.DeltaDiscoveryRequest(**{"type_url": CLUSTER, **fields}).SerializeToString()
    with pytest.raises(TooMuchError, match=f"^{what} of more than 1,024 characters"):
        parse_delta(data)
    if "initial_resource_versions" not in fields:
        with pytest.raises(TooMuchError, match=f"^{what} of more than 1,024 characters"):
            parse_sotw(discovery_pb2.DiscoveryRequest(**{"type_url": CLUSTER, **fields}).SerializeToString())


def test_results_for_names_of_one_client_are_not_kept() -> None:
    """What one client asked for is let go of when others ask, not after so many more results."""
    shared, computed = SharedResults(), count()
    big = dict.fromkeys(many(REMEMBERED_NAMES // 4))
    for _ in range(8):
        shared._remember("test", dict(big), None, lambda: next(computed))
    assert sum(len(operand) for _, operand, _ in shared._memo.values() if isinstance(operand, dict)) <= REMEMBERED_NAMES
    small = {"a": None}
    first = shared._remember("test", small, None, lambda: next(computed))
    assert shared._remember("test", small, None, lambda: next(computed)) == first
