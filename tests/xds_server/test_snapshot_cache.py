"""From which snapshot new clients start after a NACK, and which NACKs are kept."""

from __future__ import annotations

import pytest

from tests.xds_server.build import resource
from tests.xds_server.transcript import world
from xds_server.resources.ack_events import Nacked
from xds_server.resources.cache import REMEMBERED, SnapshotCache
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS

GOOD = world("clusters a=1- b=1-")
BAD = world("clusters a=2- b=2-")


def refusal(snapshot: Snapshot, **others: str) -> Nacked:
    """Of all clusters of a snapshot, and maybe of more."""
    clusters = snapshot.of_type(CLUSTER)
    versions = {name: item.version for name, item in clusters.resources.items()}
    return Nacked(CLUSTER, clusters.version, "bad", snapshot, {**versions, **others})


@pytest.fixture
def store() -> SnapshotCache:
    """A client has acknowledged a whole snapshot, and another one was published since."""
    found = SnapshotCache()
    found.publish("web", GOOD)
    found.acked("web", GOOD)
    found.publish("web", BAD)
    return found


def test_what_was_refused_together_may_be_tried_as_soon_as_any_of_it_has_changed(store: SnapshotCache) -> None:
    store.nacked("web", refusal(BAD))
    assert _clusters(store) == GOOD.of_type(CLUSTER).version
    better = world("clusters a=2- b=3-")
    store.publish("web", better)
    assert store.initial("web") is store.current("web")
    assert _clusters(store) == better.of_type(CLUSTER).version


def test_a_name_that_a_client_made_up_saves_no_other_from_what_it_refused(store: SnapshotCache) -> None:
    store.nacked("web", refusal(BAD, stranger="made up"))
    assert _clusters(store) == GOOD.of_type(CLUSTER).version


def test_a_refusal_of_a_version_outside_the_snapshot_keeps_nothing_from_other_clients(store: SnapshotCache) -> None:
    store.nacked("web", Nacked(CLUSTER, "", "bad", BAD, {"a": "made up", "b": None}))
    assert store.initial("web") is store.current("web")
    assert store.nacked_resources("web") == frozenset()


def test_a_resource_that_one_client_has_acknowledged_is_refused_no_more(store: SnapshotCache) -> None:
    store.nacked("web", refusal(BAD))
    taken = store.current("web")
    assert taken is not None
    store.acked("web", taken)
    assert store.initial("web") is taken
    # Nor does it come back to that when something else changes.
    store.publish("web", world("clusters a=2- b=2-; secrets k=1"))
    assert store.initial("web") is store.current("web")


def test_an_older_snapshot_that_is_taken_late_is_not_what_was_taken_last(store: SnapshotCache) -> None:
    store.nacked("web", refusal(BAD))
    store.acked("web", world("clusters z=1-"))
    assert _clusters(store) == GOOD.of_type(CLUSTER).version


def test_a_client_that_starts_from_an_earlier_snapshot_gets_the_endpoints_of_its_clusters() -> None:
    """A list may have changed together with what its cluster says of it: it stays if that does."""
    store = SnapshotCache()
    store.publish("web", world("clusters a=1 b=1; endpoints a=1 b=1"))
    good = store.current("web")
    assert good is not None
    store.acked("web", good)
    bad = world("clusters a=2 b=1; endpoints a=2 b=2")
    store.publish("web", bad)
    store.nacked("web", refusal(bad))
    start = store.initial("web")
    assert start is not None
    expected = {"a": resource(ENDPOINTS, "a", 1), "b": resource(ENDPOINTS, "b", 2)}
    assert {name: item.version for name, item in start.of_type(ENDPOINTS).resources.items()} == {
        name: item.version for name, item in expected.items()
    }


def test_few_refusals_are_remembered(store: SnapshotCache) -> None:
    wide = Snapshot.of([resource(CLUSTER, f"c{number}", 1, ("-",)) for number in range(REMEMBERED * 2)])
    store.publish("web", wide)
    for name, item in wide.of_type(CLUSTER).resources.items():
        store.nacked("web", Nacked(CLUSTER, "", "bad", wide, {name: item.version}))
    assert len(store.nacked_resources("web")) == REMEMBERED


def _clusters(store: SnapshotCache) -> str:
    start = store.initial("web")
    assert start is not None
    return start.of_type(CLUSTER).version
