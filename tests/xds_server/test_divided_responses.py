"""Clients of gRPC take 4 MB in one message: in delta, what is more goes out in several."""

from __future__ import annotations

from typing import Any

import grpc
from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from tests.xds_server.build import resource
from tests.xds_server.client import names
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.wire import DeltaRequest, Response
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS
from xds_server.transport.server import XdsServer

LIMIT = 1000


def clusters(count: int, content: int = 1) -> Snapshot:
    return Snapshot.of(resource(CLUSTER, f"cluster-{number:02}", content, ("-",)) for number in range(count))


def read(responses: list[Response]) -> list[Any]:
    assert all(len(response.data) <= LIMIT for response in responses)
    return [discovery_pb2.DeltaDiscoveryResponse.FromString(response.data) for response in responses]


def test_a_large_response_is_several_each_with_a_nonce_of_its_own() -> None:
    stream = DeltaStream(clusters(20), SharedResults(LIMIT))
    parts = read(stream.receive(DeltaRequest(CLUSTER)))
    assert len(parts) > 2
    assert [part.nonce for part in parts] == [str(number + 1) for number in range(len(parts))]
    assert [name for part in parts for name in names(part)] == [f"cluster-{number:02}" for number in range(20)]


def test_the_next_push_waits_for_the_answers_to_all_of_them_in_whatever_order() -> None:
    stream = DeltaStream(clusters(20), SharedResults(LIMIT))
    parts = read(stream.receive(DeltaRequest(CLUSTER)))
    assert stream.publish(clusters(20, 2)) == []
    for part in reversed(parts[1:]):
        assert stream.receive(DeltaRequest(CLUSTER, part.nonce)) == []
    again = read(stream.receive(DeltaRequest(CLUSTER, parts[0].nonce)))
    assert sorted(name for part in again for name in names(part)) == [f"cluster-{number:02}" for number in range(20)]


def test_removals_are_divided_too_and_come_before_what_is_new() -> None:
    stream = DeltaStream(clusters(40), SharedResults(LIMIT))
    for part in read(stream.receive(DeltaRequest(CLUSTER))):
        stream.receive(DeltaRequest(CLUSTER, part.nonce))
    parts = read(stream.publish(clusters(2)))
    assert len(parts) > 2
    assert [name for part in parts for name in part.removed_resources] == [f"cluster-{n:02}" for n in range(2, 40)]


def test_of_a_part_that_is_refused_the_client_has_what_it_had_and_the_others_stand() -> None:
    stream = DeltaStream(clusters(20), SharedResults(LIMIT))
    first, second, *others = read(stream.receive(DeltaRequest(CLUSTER)))
    stream.receive(DeltaRequest(CLUSTER, second.nonce, "one of them is bad"))
    for part in (first, *others):
        assert stream.receive(DeltaRequest(CLUSTER, part.nonce)) == []
    changed = Snapshot.of(
        resource(CLUSTER, name, 2 if name == names(second)[0] else 1, ("-",))
        for name in (f"cluster-{number:02}" for number in range(20))
    )
    again = read(stream.publish(changed))
    assert [name for part in again for name in names(part)] == names(second)


def test_clusters_wait_for_the_endpoints_of_all_parts() -> None:
    world = Snapshot.of(resource(CLUSTER, f"cluster-{number:02}", 1) for number in range(20))
    stream = DeltaStream(world, SharedResults(LIMIT))
    for part in read(stream.receive(DeltaRequest(CLUSTER))):
        stream.receive(DeltaRequest(CLUSTER, part.nonce))
    assert stream.waits_for
    asked = DeltaRequest(ENDPOINTS, subscribe=tuple(f"cluster-{number:02}" for number in range(20)))
    parts = read(stream.receive(asked))
    assert len(parts) > 1
    assert not stream.waits_for
    assert stream.completed is None
    for part in parts:
        stream.receive(DeltaRequest(ENDPOINTS, part.nonce))
    assert stream.completed is world


async def test_a_client_with_the_limits_of_grpc_takes_more_than_four_megabytes() -> None:
    large = [Resource.of(cluster_pb2.Cluster(name=f"c{n}", alt_stat_name="x" * 700_000)) for n in range(12)]
    store = SnapshotCache()
    store.publish("web", Snapshot.of(large))
    server = XdsServer(store, lambda _: "web")
    port = await server.start("127.0.0.1:0")
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).DeltaAggregatedResources()
            await call.write(discovery_pb2.DeltaDiscoveryRequest(type_url=CLUSTER))
            found: set[str] = set()
            while len(found) < len(large):
                found.update(names(await call.read()))
            call.cancel()
    finally:
        await server.stop(0)
