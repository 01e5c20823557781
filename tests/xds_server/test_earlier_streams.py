"""What is remembered of a client that may come back: what it has, however much it was sent besides."""

from __future__ import annotations

import pytest

from tests.xds_server.client import Client
from tests.xds_server.test_server import _until as until
from tests.xds_server.test_server import serving
from tests.xds_server.transcript import Conversation, world
from xds_server.resources.earlier_streams import REMEMBERED, EarlierStreams
from xds_server.resources.types import CLUSTER

REFUSALS = 22


def test_what_clients_had_when_they_left_has_a_bound() -> None:
    past: EarlierStreams = EarlierStreams()
    there = {str(number): world(f"clusters c{number}=1-").of_type(CLUSTER).resources for number in range(20)}
    first, second, *others = list(there)[: REMEMBERED + 1]
    for version in (first, second, *others[:-1], first, others[-1]):
        past.hold(version, there[version])
        past.leave(version)
    assert not past.has(second)
    assert all(past.clusters(version) is there[version] for version in (first, *others))
    # An open stream may have it for as long as it likes.
    past.hold(second, there[second])
    for version, held in there.items():
        past.hold(version, held)
        past.leave(version)
    assert past.clusters(second) is there[second]


def test_what_no_client_has_is_forgotten_at_once() -> None:
    past, held = EarlierStreams(), world("clusters a=1-").of_type(CLUSTER).resources
    past.hold("1", held)
    past.hold("1", held)
    past.drop("1")
    assert past.has("1")
    past.drop("1")
    assert not past.has("1")


def test_a_version_that_is_not_known_may_be_what_was_acknowledged() -> None:
    past, taken = EarlierStreams(), world("clusters a=1-")
    assert past.clusters("unheard of") == {}
    past.last_acked.snapshot_acked(1, taken)
    assert past.clusters("unheard of") is taken.of_type(CLUSTER).resources


OLD = "clusters a=1-; listeners l=1>r; routes r=1>a"


def begun() -> Conversation:
    """A client of state of the world that has a listener, its routes and the cluster `a`."""
    client = Conversation("sotw")
    lines = f"world {OLD}|> clusters|> clusters ack 1|> listeners|> listeners ack 1|> routes r|> routes ack 1"
    for line in lines.split("|"):
        client.hear(line)
    assert client.hear("taken?") == ["= yes"]
    return client


@pytest.mark.parametrize("last", ["refused", "unanswered"])
def test_a_client_that_refused_many_changes_gets_the_cluster_of_its_route_in_the_first_answer(last: str) -> None:
    client = begun()
    for number in range(2, REFUSALS + 2):
        (said,) = client.hear(f"world clusters b={number}-; listeners l=1>r; routes r=2>b")
        assert said == f"< clusters {number}: a=1 b={number}"
        if last == "refused" or number <= REFUSALS:
            client.hear(f"> clusters nack {number} bad")
    client.hear("again")
    assert client.hear("> clusters has a=1-") == [f"< clusters 1: a=1 b={REFUSALS + 1}"]


def test_a_response_that_was_not_answered_may_have_been_taken() -> None:
    client = begun()
    client.hear("world clusters b=1-; listeners l=1>r; routes r=2>b")
    client.hear("again")
    client.hear("world clusters c=1-; listeners l=1>r; routes r=3>c")
    assert client.hear("> clusters has a=1- b=1-") == ["< clusters 1: a=1 b=1 c=1"]


def test_a_client_that_leaves_before_it_answers_has_what_it_brought() -> None:
    client = begun()
    client.hear("again")
    client.hear("world clusters b=1-; listeners l=1>r; routes r=2>b")
    for _ in range(REMEMBERED + 2):
        assert client.hear("> clusters has a=1-") == ["< clusters 1: a=1 b=1"]
        client.hear("again")


def test_a_client_that_refuses_its_first_answer_keeps_the_cluster_of_its_route() -> None:
    """It has an earlier version of the cluster, and has not asked for listeners or routes on this stream yet."""
    client = begun()
    client.hear("again")
    client.hear("world clusters a=2-")
    assert client.hear("> clusters has a=1-") == ["< clusters 1: a=2"]
    assert client.hear("> clusters nack 1 bad") == []
    assert client.hear("world clusters b=1-") == ["< clusters 2: a=1 b=1"]


def test_of_each_stream_only_what_its_client_may_have_is_kept() -> None:
    """However many changes it refuses or takes, and whether or not it brought something along."""
    client = begun()
    past = client._past
    for number in range(2, 6):
        client.hear(f"world clusters a=1- b={number}-; listeners l=1>r; routes r=1>a")
        assert len(past._held) == 2
        client.hear(f"> clusters nack {number} bad")
        assert len(past._held) == 1
    for number in range(6, 10):
        client.hear(f"world clusters a=1- b={number}-; listeners l=1>r; routes r=1>a")
        client.hear(f"> clusters ack {number}")
        assert len(past._held) == 1
    client.hear("world clusters a=1- b=10-; listeners l=1>r; routes r=1>a")
    client.hear("again")
    assert (len(past._held), len(past._left)) == (0, 2)
    client.hear("> clusters has a=1- b=9-")
    assert len(past._held) == 2
    client.hear("again")
    assert len(past._held) == 0


async def test_the_server_keeps_nothing_for_streams_that_have_ended() -> None:
    async with serving(world("clusters a=1-")) as (server, port):
        async with Client(port, "sotw") as client:
            await client.send(CLUSTER)
            await client.send(CLUSTER, nonce=(await client.read()).nonce)
            await until(lambda: server.store.last_acked("web") is not None)
            assert server.store.earlier_streams("web")._held
        await until(lambda: not server.connections)
        assert not server.store.earlier_streams("web")._held
