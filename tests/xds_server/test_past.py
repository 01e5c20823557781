"""What is remembered of earlier streams has a bound, and what is still sent is not forgotten for it."""

from __future__ import annotations

from tests.xds_server.transcript import world
from xds_server.past import REMEMBERED, Past
from xds_server.types import CLUSTER


def test_what_was_sent_last_is_remembered() -> None:
    past, sent = Past(), {str(number): world(f"clusters c{number}=1-") for number in range(REMEMBERED + 1)}
    clusters = {version: snapshot.of_type(CLUSTER).resources for version, snapshot in sent.items()}
    first, second, *others, last = clusters
    for version in (first, second, *others):
        past.send(version, clusters[version])
    # Another client comes, and is sent again what was sent first.
    past.send(first, clusters[first])
    past.send(last, clusters[last])
    assert all(past.clusters(version) is clusters[version] for version in (first, *others, last))
    assert past.clusters(second) == {}


def test_what_nobody_remembers_may_be_what_was_acknowledged() -> None:
    past, taken = Past(), world("clusters a=1-")
    assert past.clusters("unheard of") == {}
    past.accept(taken)
    assert past.clusters("unheard of") is taken.of_type(CLUSTER).resources
