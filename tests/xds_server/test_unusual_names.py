"""Names that no resource can have, or that hardly any has: they are answered like others that do not exist."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from tests.xds_server.build import MESSAGES
from tests.xds_server.transcript import world
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.wire import parse_delta, parse_sotw
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES, WHOLE

WORLD = "clusters a=1; endpoints a=1; extensions a=1; listeners a=1>a; routes a=1>a; secrets a=1"
ODD = ["", "\0", "a\0b", " ", "**", "x" * 1024, "\u202e", "🙂"]
TYPES = pytest.mark.parametrize("kind", sorted(MESSAGES), ids=lambda kind: kind.rpartition(".")[2])


def asked(stream: Any, kind: str, *names: str, nonce: str = "", has: dict[str, str] | None = None) -> list[Any]:
    """The responses to a request, as the client reads them."""
    if isinstance(stream, DeltaStream):
        request: Any = discovery_pb2.DeltaDiscoveryRequest(
            type_url=kind, resource_names_subscribe=names, response_nonce=nonce, initial_resource_versions=has or {}
        )
        responses = stream.receive(parse_delta(request.SerializeToString()))
        return [discovery_pb2.DeltaDiscoveryResponse.FromString(each.data) for each in responses]
    request = discovery_pb2.DiscoveryRequest(type_url=kind, resource_names=names, response_nonce=nonce)
    responses = stream.receive(parse_sotw(request.SerializeToString()))
    return [discovery_pb2.DiscoveryResponse.FromString(each.data) for each in responses]


def named(response: Any) -> list[str]:
    """The names of its resources, as the resources say them."""
    found = []
    for item in response.resources:
        message = MESSAGES[response.type_url]()
        assert getattr(item, "resource", item).Unpack(message)
        found.append(message.cluster_name if response.type_url == ENDPOINTS else message.name)
    return found


@TYPES
@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_sotw_is_silent_about_it(kind: str, odd: str) -> None:
    stream = SotwStream(world(WORLD), SharedResults())
    there = [odd] if kind == ENDPOINTS and odd else []
    assert [named(each) for each in asked(stream, kind, odd)] == [there] * bool(there)
    (response,) = asked(stream, kind, odd, "a", nonce="1" if there else "")
    assert sorted(named(response)) == ["a"]


@pytest.mark.parametrize("kind", sorted(WHOLE))
def test_a_list_with_an_empty_name_is_not_empty(kind: str) -> None:
    stream = SotwStream(world(WORLD), SharedResults())
    assert not asked(stream, kind, "")
    assert not asked(stream, kind)


@TYPES
@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_delta_says_that_it_is_not_there(kind: str, odd: str) -> None:
    stream = DeltaStream(world(WORLD), SharedResults())
    (response,) = asked(stream, kind, odd, "a")
    # Endpoints that are not known are an empty list.
    known = kind == ENDPOINTS and bool(odd)
    assert sorted(named(response)) == sorted(["a", *[odd] * known])
    assert list(response.removed_resources) == [odd] * (not known)


def test_a_client_that_says_it_has_endpoints_without_a_name_gets_their_removal() -> None:
    stream = DeltaStream(world(WORLD), SharedResults())
    responses = [*asked(stream, CLUSTER), *asked(stream, ENDPOINTS, "", "a", has={"": "1"})]
    responses += [*asked(stream, LISTENER), *asked(stream, ROUTES)]
    for response in responses:
        responses += asked(stream, response.type_url, nonce=response.nonce)
    assert "" not in [name for each in responses for name in named(each)]
    assert "" in [name for each in responses for name in each.removed_resources]


@TYPES
def test_everything_has_no_resource_without_a_name(kind: str) -> None:
    for stream in (SotwStream(world(WORLD), SharedResults()), DeltaStream(world(WORLD), SharedResults())):
        (response,) = asked(stream, kind, "*", "")
        assert named(response) == ["a"]
