"""The server's metrics in the Prometheus text format (docs/operations.md lists them all).

The server only counts. A request for the metrics turns the counts into Prometheus metrics, so that serving proxies
costs no more than counting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from admc.serve.auth.handshakes import REASONS as HANDSHAKES
from xds_server.resources.types import ORDER, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from admc.serve.auth.tls import TlsCounts
    from admc.serve.observe.problems import Counts
    from xds_server.metrics import Histogram, Metrics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
# A counter that first appears with the value 1 shows no increase to Prometheus. So each counter that an alert may use
# exists from the start, with the value 0.
_TYPES: Final = tuple(short(url) for url in ORDER)
_WHY: Final = (
    *("age", "closed", "cut", "drained", "invalid_argument", "permission_denied", "resource_exhausted"),
    *("unauthenticated", "unavailable"),
)
_REASONS: Final = ("ambiguous", "certificate", "crowd", "expired", "token", "too_much", "unknown", "unmapped")


class Gauges(NamedTuple):
    """Current values. They are cheap to compute, because Prometheus asks for them all the time."""

    ready: bool
    version: str
    """The version of admc."""
    adms: int
    """ADMs in the plan."""
    adms_without_clients: int
    clients_out_of_sync: int
    """Clients that have not acknowledged all wanted resources."""
    problem: bool = False
    """Whether the last change of a file could not be used or stored."""
    rollout_under_way: bool = False
    """Also while redirection that the plan needs is missing."""
    unlisted: int = 0
    """Services and outside parties without addresses."""
    lease_held: bool | None = None
    """Whether this replica is the active one; None for a server without replicas."""


@dataclass(slots=True)
class MetricSources:
    """The counters and gauges."""

    xds: Metrics
    counts: Counts
    gauges: Callable[[], Gauges]
    tls: TlsCounts | None = None
    handshakes: Mapping[str, int] | None = None
    """TLS handshakes that failed, by reason."""
    environment: Callable[[], Iterable[Metric]] = tuple
    """Metrics of the environment."""
    _registry: CollectorRegistry = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_AdmcCollector(self))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def exposition(self) -> bytes:
        """All metrics as text."""
        return generate_latest(self._registry)


class _AdmcCollector(Collector):
    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        yield from _xds(self._sources.xds)
        yield from _application(self._sources.counts)
        if self._sources.tls is not None:
            yield from _tls(self._sources.tls)
        if self._sources.handshakes is not None:
            refused = self._sources.handshakes
            yield counter("admc_tls_refusals", "Failed TLS handshakes", refused, "reason", HANDSHAKES)
        yield from self._sources.environment()
        yield from _state(self._sources.gauges())


def _xds(metrics: Metrics) -> Iterator[Metric]:
    yield _by_type("admc_xds_pushes", "Responses sent to clients", metrics.pushes)
    yield _by_type("admc_xds_pushed_bytes", "Bytes of responses sent to clients", metrics.pushed_bytes)
    yield _by_type("admc_xds_requests", "Requests from clients, including ACKs and NACKs", metrics.requests)
    yield _by_type("admc_xds_acknowledgements", "ACKs of clients", metrics.acknowledgements)
    yield _by_type("admc_xds_rejects", "NACKs of clients", metrics.rejects)
    yield counter("admc_xds_streams", "Streams that ended", metrics.streams, "why", _WHY)
    yield counter("admc_xds_denials", "Denied clients", metrics.denials, "reason", _REASONS)
    yield number("admc_xds_snapshots", "Published snapshots that differed from the previous one", metrics.snapshots)
    yield number(
        "admc_xds_refused_snapshots", "Snapshots with references to missing resources", metrics.refused_snapshots
    )
    yield GaugeMetricFamily("admc_xds_connected_clients", "Open streams of admitted clients", metrics.connected)
    yield histogram(
        "admc_proxy_convergence_seconds",
        "From the publication of a snapshot until a client had acknowledged all that it can use of it",
        metrics.convergence,
    )


def _application(counts: Counts) -> Iterator[Metric]:
    yield number("admc_compiles", "Compiles that were put in force", counts.compiles)
    yield number("admc_compile_errors", "Programs and plans that could not be used", counts.compile_errors)
    yield GaugeMetricFamily("admc_compile_seconds", "How long the last compile took", counts.compile_seconds)
    yield number("admc_locates", "Changes of addresses that were applied", counts.address_updates)
    yield number("admc_endpoint_errors", "Endpoints files that could not be used", counts.endpoint_errors)
    yield number("admc_apply_errors", "States that were made and could not be put in force", counts.apply_errors)
    yield number("admc_rollout_errors", "Times that a step of a rollout could not be taken", counts.rollout_errors)
    yield number(
        "admc_kept_errors", "Failures to read or write the stored state, and changes from outside", counts.kept_errors
    )
    yield GaugeMetricFamily("admc_changed_timestamp_seconds", "When the last state was put in force", counts.changed_at)


def _tls(counts: TlsCounts) -> Iterator[Metric]:
    yield number("admc_tls_reloads", "Changes of the certificate in use", counts.reloads)
    yield number("admc_tls_reload_errors", "New certificates that could not be used", counts.reload_errors)
    yield GaugeMetricFamily(
        "admc_tls_certificate_expiry_timestamp_seconds", "When the certificate in use ends", counts.expires
    )


def _state(gauges: Gauges) -> Iterator[Metric]:
    yield GaugeMetricFamily("admc_ready", "Whether clients are served", float(gauges.ready))
    yield GaugeMetricFamily(
        "admc_problem",
        "Whether the last change of a file could not be used or stored",
        float(gauges.problem),
    )
    yield GaugeMetricFamily(
        "admc_rollout_under_way",
        "Whether a rollout to another plan is under way, or redirection or a NetworkPolicy of it is not confirmed",
        float(gauges.rollout_under_way),
    )
    build = GaugeMetricFamily("admc_build_info", "Always 1; the version is in the label", labels=["version"])
    build.add_metric([gauges.version], 1.0)
    yield build
    yield GaugeMetricFamily("admc_adms", "ADMs of the plan", gauges.adms)
    yield GaugeMetricFamily("admc_adms_without_nodes", "ADMs without a connected proxy", gauges.adms_without_clients)
    if gauges.lease_held is not None:
        yield GaugeMetricFamily("admc_lease_held", "Whether this replica is the active one", float(gauges.lease_held))
    yield GaugeMetricFamily("admc_unlisted", "Services and outside parties without addresses", gauges.unlisted)
    yield GaugeMetricFamily(
        "admc_nodes_out_of_sync",
        "Clients that have not acknowledged all wanted resources",
        gauges.clients_out_of_sync,
    )


def _by_type(name: str, text: str, values: Mapping[str, int]) -> Metric:
    return counter(name, text, {short(url): count for url, count in values.items()}, "type", _TYPES)


def counter(name: str, text: str, values: Mapping[str, int], label: str, always: tuple[str, ...]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in sorted((dict.fromkeys(always, 0) | dict(values)).items()):
        family.add_metric([value], count)
    return family


def number(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def histogram(name: str, text: str, values: Histogram) -> Metric:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*values.bounds, float("inf")), values.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), total))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=values.sum)
