"""What both servers serve: states as files, each with the bytes of one response of state of the world.

Each state is another content for the same names, so that any of them changes all clusters, or just one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2

if TYPE_CHECKING:
    from pathlib import Path


def cluster(name: str, content: int) -> Any:
    """A cluster of the size and kind that a mesh has: addresses by name, limits, health checks, outliers."""
    made = cluster_pb2.Cluster(
        name=f"outbound|8080||{name}.shop.svc.cluster.local", type=cluster_pb2.Cluster.STRICT_DNS
    )
    made.connect_timeout.seconds = 1 + content
    made.alt_stat_name = name
    assignment = made.load_assignment
    assignment.cluster_name = made.name
    for zone in ("a", "b"):
        locality = assignment.endpoints.add()
        locality.locality.zone = zone
        address = locality.lb_endpoints.add().endpoint.address.socket_address
        address.address, address.port_value = f"{name}-{zone}.shop.svc.cluster.local", 8080
    thresholds = made.circuit_breakers.thresholds.add()
    for limit in ("max_connections", "max_pending_requests", "max_requests", "max_retries"):
        getattr(thresholds, limit).value = (1 << 32) - 1
    check = made.health_checks.add()
    check.timeout.seconds, check.interval.seconds = 1, 10
    check.unhealthy_threshold.value = check.healthy_threshold.value = 3
    check.http_health_check.path = f"/healthz?of={name}"
    made.outlier_detection.consecutive_5xx.value = 5
    made.outlier_detection.base_ejection_time.seconds = 30
    made.metadata.filter_metadata["admc"].fields["service"].string_value = name
    return made


def state(clusters: int, content: int, changed: int) -> bytes:
    """Some clusters, of which the first `changed` have this content and the others always the same."""
    response = discovery_pb2.DiscoveryResponse()
    for number in range(clusters):
        response.resources.add().Pack(cluster(f"service-{number:03}", content if number < changed else 0))
    return bytes(response.SerializeToString(deterministic=True))


def write_states(folder: Path, clusters: int, changed: int, states: int) -> list[Path]:
    """The files, in the order of their contents."""
    paths = []
    for content in range(states):
        path = folder / f"{clusters}-{changed}-{content}.state"
        path.write_bytes(state(clusters, content, changed))
        paths.append(path)
    return paths
