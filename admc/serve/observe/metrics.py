"""The server's counters in the form that Prometheus reads (docs/operations.md names them all).

The engine counts plain numbers; they become metrics only when somebody asks, so that serving pays nothing for it.
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
# A counter that appears with its first event appears as 1, and to Prometheus nothing has increased: so what an alert
# may be about is there from the start.
_TYPES: Final = tuple(short(url) for url in ORDER)
_WHY: Final = (
    *("age", "closed", "cut", "drained", "invalid_argument", "permission_denied", "resource_exhausted"),
    *("unauthenticated", "unavailable"),
)
_REASONS: Final = ("ambiguous", "certificate", "crowd", "expired", "token", "too_much", "unknown", "unmapped")


class Now(NamedTuple):
    """How it stands, in numbers that are at hand: they are asked for all the time."""

    ready: bool
    version: str
    """Of admc."""
    adms: int
    """Of the plan."""
    alone: int
    """ADMs of the plan that no client asks for."""
    behind: int
    """Clients without all that they are to have."""
    wrong: bool = False
    """Whether something is wrong with what was read last, so that what was in force before stays."""
    on_the_way: bool = False
    """Whether a transition is under way."""
    unlisted: int = 0
    """Services and outside parties whose addresses are missing."""


@dataclass(slots=True)
class Sources:
    """Where the numbers are."""

    xds: Metrics
    counts: Counts
    now: Callable[[], Now]
    tls: TlsCounts | None = None
    handshakes: Mapping[str, int] | None = None
    """Those that were refused, by reason."""
    _registry: CollectorRegistry = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Own(self))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def exposition(self) -> bytes:
        """All metrics as text."""
        return generate_latest(self._registry)


class _Own(Collector):
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        yield from _xds(self._sources.xds)
        yield from _application(self._sources.counts)
        if self._sources.tls is not None:
            yield from _tls(self._sources.tls)
        if self._sources.handshakes is not None:
            refused = self._sources.handshakes
            yield _counter("admc_tls_refusals", "Connections that TLS refused", refused, "reason", HANDSHAKES)
        yield from _state(self._sources.now())


def _xds(metrics: Metrics) -> Iterator[Metric]:
    yield _by_type("admc_xds_pushes", "Responses sent to clients", metrics.pushes)
    yield _by_type("admc_xds_pushed_bytes", "Bytes of responses sent to clients", metrics.pushed_bytes)
    yield _by_type("admc_xds_requests", "Requests and answers from clients", metrics.requests)
    yield _by_type("admc_xds_acknowledgements", "Responses that clients took", metrics.acknowledgements)
    yield _by_type("admc_xds_rejects", "Responses that clients refused", metrics.rejects)
    yield _counter("admc_xds_streams", "Streams that ended", metrics.streams, "why", _WHY)
    yield _counter("admc_xds_denials", "Clients that were not let in", metrics.denials, "reason", _REASONS)
    yield _number("admc_xds_snapshots", "Snapshots published that differed from the one before", metrics.snapshots)
    yield _number("admc_xds_refused_snapshots", "Snapshots that were not consistent", metrics.refused_snapshots)
    yield GaugeMetricFamily("admc_xds_connected_clients", "Clients that are let in", metrics.connected)
    yield _histogram(
        "admc_proxy_convergence_seconds",
        "From the publication of a snapshot until a client had acknowledged all that it can use of it",
        metrics.convergence,
    )


def _application(counts: Counts) -> Iterator[Metric]:
    yield _number("admc_compiles", "Compiles that were put in force", counts.compiles)
    yield _number("admc_compile_errors", "Programs and plans that could not be used", counts.compile_errors)
    yield GaugeMetricFamily("admc_compile_seconds", "How long the last compile took", counts.compile_seconds)
    yield _number("admc_locates", "Changes of addresses that were put in force", counts.locates)
    yield _number("admc_endpoint_errors", "Endpoints files that could not be used", counts.endpoint_errors)
    yield _number("admc_apply_errors", "States that were made and could not be put in force", counts.apply_errors)
    yield _number(
        "admc_transition_errors", "Times that a step of a transition could not be taken", counts.transition_errors
    )
    yield _number("admc_kept_errors", "Times that the kept state could not be used or written", counts.kept_errors)
    yield GaugeMetricFamily("admc_changed_timestamp_seconds", "When the last state was put in force", counts.changed_at)


def _tls(counts: TlsCounts) -> Iterator[Metric]:
    yield _number("admc_tls_reloads", "Changes of the certificate in use", counts.reloads)
    yield _number("admc_tls_reload_errors", "New certificates that could not be used", counts.reload_errors)
    yield GaugeMetricFamily(
        "admc_tls_certificate_expiry_timestamp_seconds", "When the certificate in use ends", counts.expires
    )


def _state(now: Now) -> Iterator[Metric]:
    yield GaugeMetricFamily("admc_ready", "Whether clients are served", float(now.ready))
    yield GaugeMetricFamily(
        "admc_problem",
        "Whether the last change of a file could not be used or kept, so that the last good one stays",
        float(now.wrong),
    )
    yield GaugeMetricFamily(
        "admc_transition_under_way", "Whether steps to another plan are being taken", float(now.on_the_way)
    )
    build = GaugeMetricFamily("admc_build_info", "Always 1; the version is in the label", labels=["version"])
    build.add_metric([now.version], 1.0)
    yield build
    yield GaugeMetricFamily("admc_adms", "ADMs of the plan", now.adms)
    yield GaugeMetricFamily("admc_adms_without_nodes", "ADMs of the plan that no proxy asks for", now.alone)
    yield GaugeMetricFamily("admc_unlisted", "Services and outside parties whose addresses are missing", now.unlisted)
    yield GaugeMetricFamily("admc_nodes_out_of_sync", "Clients without all that they are to have", now.behind)


def _by_type(name: str, text: str, values: Mapping[str, int]) -> Metric:
    return _counter(name, text, {short(url): number for url, number in values.items()}, "type", _TYPES)


def _counter(name: str, text: str, values: Mapping[str, int], label: str, always: tuple[str, ...]) -> Metric:
    found = CounterMetricFamily(name, text, labels=[label])
    for value, number in sorted((dict.fromkeys(always, 0) | dict(values)).items()):
        found.add_metric([value], number)
    return found


def _number(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _histogram(name: str, text: str, values: Histogram) -> Metric:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, number in zip((*values.bounds, float("inf")), values.counts, strict=True):
        total += number
        buckets.append(("+Inf" if bound == float("inf") else str(bound), total))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=values.sum)
