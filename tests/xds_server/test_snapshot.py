"""Snapshots: what may be published, and what versions are made of."""

from __future__ import annotations

import pytest
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2

from tests.xds_server.build import MESSAGES, resource
from xds_server.resources.references import Reference, references
from xds_server.resources.snapshot import (
    BadResourceError,
    DuplicateResourceError,
    InconsistentSnapshotError,
    Resource,
    Snapshot,
    difference,
)
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET


def test_versions_are_digests_of_content() -> None:
    one, same, other = (resource(CLUSTER, "a", content) for content in (1, 1, 2))
    assert one.version == same.version != other.version
    assert Snapshot.of([one]).version == Snapshot.of([same]).version != Snapshot.of([other]).version


def test_the_order_in_which_resources_are_given_does_not_matter() -> None:
    a, b = resource(CLUSTER, "a", 1, ("-",)), resource(CLUSTER, "b", 1, ("-",))
    assert Snapshot.of([a, b]).version == Snapshot.of([b, a]).version


def test_bytes_and_messages_are_the_same_resource() -> None:
    made = resource(LISTENER, "l", 1, ("r",))
    assert Resource.parse(LISTENER, made.body) == made or Resource.parse(LISTENER, made.body).version == made.version
    assert Resource.parse(LISTENER, made.body).references == {Reference(ROUTES, "r")}


@pytest.mark.parametrize(
    ("type_url", "body", "message"),
    [
        (CLUSTER, b"\xff", "the bytes are no `Cluster`"),
        (CLUSTER, b"", "a `Cluster` has no name"),
        ("type.googleapis.com/envoy.no.such.Thing", b"", "is not a type that this server knows"),
        ("type.googleapis.com/os.path", b"", "is not a type that this server knows"),
    ],
)
def test_what_is_no_resource_is_refused(type_url: str, body: bytes, message: str) -> None:
    with pytest.raises(BadResourceError, match=message):
        Resource.parse(type_url, body)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(DuplicateResourceError, match="two resources of type `Cluster` are named `a`"):
        Snapshot.of([resource(CLUSTER, "a", 1), resource(CLUSTER, "a", 2)])


def test_all_references_are_checked() -> None:
    listener = MESSAGES[LISTENER](name="l")
    tls = tls_pb2.DownstreamTlsContext()
    secret = tls.common_tls_context.tls_certificate_sds_secret_configs.add(name="key")
    secret.sds_config.ads.SetInParent()
    chain = listener.filter_chains.add()
    chain.transport_socket.name = "tls"
    chain.transport_socket.typed_config.Pack(tls)
    manager = http_connection_manager_pb2.HttpConnectionManager(stat_prefix="s")
    manager.rds.route_config_name = "r"
    manager.rds.config_source.ads.SetInParent()
    extension = manager.http_filters.add(name="quota")
    extension.config_discovery.config_source.ads.SetInParent()
    chain.filters.add(name="http").typed_config.Pack(manager)
    tcp = tcp_proxy_pb2.TcpProxy(stat_prefix="t")
    tcp.weighted_clusters.clusters.add(name="w", weight=1)
    listener.filter_chains.add().filters.add(name="tcp").typed_config.Pack(tcp)
    with pytest.raises(InconsistentSnapshotError) as caught:
        Snapshot.of([Resource.of(listener)]).check()
    assert {problem.missing for problem in caught.value.problems} == {
        (SECRET, "key"),
        (ROUTES, "r"),
        (EXTENSION, "quota"),
        (CLUSTER, "w"),
    }
    assert "`Listener` `l` refers to `Cluster` `w`, which is not in the snapshot" in str(caught.value)


def test_clusters_of_the_bootstrap_exist() -> None:
    routes = resource(ROUTES, "r", 1, ("local",))
    with pytest.raises(InconsistentSnapshotError, match="`Cluster` `local`"):
        Snapshot.of([routes]).check()
    Snapshot.of([routes], elsewhere=["local"]).check()


def test_files_and_other_servers_are_not_ours_to_check() -> None:
    manager = http_connection_manager_pb2.HttpConnectionManager(stat_prefix="s")
    manager.rds.route_config_name = "r"
    manager.rds.config_source.path_config_source.path = "/routes"
    assert references(manager) == frozenset()


def test_one_missing_list_of_endpoints_does_not_hold_back_the_rest() -> None:
    snapshot = Snapshot.of([resource(CLUSTER, "a", 1), resource(CLUSTER, "b", 1, ("elsewhere",))])
    snapshot.check()
    empty = snapshot.of_type(ENDPOINTS).resources
    assert sorted(empty) == ["a", "elsewhere"]
    assert endpoint_pb2.ClusterLoadAssignment.FromString(empty["a"].body).cluster_name == "a"


def test_nesting_without_end_is_no_way_to_crash() -> None:
    listener = listener_pb2.Listener(name="l")
    for _ in range(90):
        outer = listener_pb2.Listener(name="l")
        outer.filter_chains.add().filters.add(name="x").typed_config.Pack(listener)
        listener = outer
    assert references(listener) == frozenset()


def test_the_difference_between_two_collections() -> None:
    old = Snapshot.of([resource(ROUTES, name, 1) for name in "abc"]).of_type(ROUTES).resources
    new = Snapshot.of([resource(ROUTES, "a", 1), resource(ROUTES, "b", 2), resource(ROUTES, "d", 1)])
    step = difference(old, new.of_type(ROUTES).resources)
    assert (sorted(step.changed), step.removed, sorted(step.kept)) == (["b", "d"], {"c"}, ["a", "b", "c", "d"])


def test_the_names_that_a_snapshot_refers_to_come_from_all_of_its_types() -> None:
    listeners = [resource(LISTENER, "l", 1, ("r",)), resource(LISTENER, "m", 1, ("s",))]
    routes = [resource(ROUTES, name, 1, ("a",)) for name in ("r", "s")]
    clusters = [resource(CLUSTER, "a", 1)]
    snapshot = Snapshot.of([*listeners, *routes, *clusters])
    assert snapshot.referenced == {ROUTES: {"r", "s"}, CLUSTER: {"a"}, ENDPOINTS: {"a"}}
    both = Snapshot.of([resource(CLUSTER, "a", 1), resource(ROUTES, "r", 1, ("a", "b")), *listeners[:1]])
    assert both.referenced[CLUSTER] == {"a", "b"}
    newer = Snapshot.of([*listeners, *routes, *clusters, resource(ENDPOINTS, "a", 2)]).sharing(snapshot)
    assert newer.referenced[ROUTES] is snapshot.referenced[ROUTES]


def test_a_snapshot_with_more_resources_shares_the_other_collections() -> None:
    before = Snapshot.of(
        [resource(CLUSTER, "b", 1, ("-",)), resource(ROUTES, "r", 1, ("b",)), resource(LISTENER, "l", 1)]
    )
    after = before.with_resources([resource(CLUSTER, "a", 1, ("-",)), resource(ROUTES, "r", 2, ("a",))])
    assert list(after.of_type(CLUSTER).resources) == ["a", "b"]
    assert after.of_type(ROUTES).version != before.of_type(ROUTES).version
    assert after.of_type(LISTENER) is before.of_type(LISTENER)
    assert before.with_resources([]).version == before.version
    made_at_once = Snapshot.of(
        [
            resource(CLUSTER, "a", 1, ("-",)),
            resource(CLUSTER, "b", 1, ("-",)),
            resource(ROUTES, "r", 2, ("a",)),
            resource(LISTENER, "l", 1),
        ]
    )
    assert after.version == made_at_once.version
    more = before.with_resources([resource(SECRET, "s", 1)])
    assert list(more.collections) == sorted([CLUSTER, LISTENER, ROUTES, SECRET])
