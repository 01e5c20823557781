"""Reads spans from OpenTelemetry's JSON (OTLP), as the file exporter of the collector writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from admc.cost.traces.json_input import entries, parent_id, text, whole
from admc.cost.traces.spans import Kind, Span, kind_of

KEY: Final = "resourceSpans"
OTHER_SIGNALS: Final = ("resourceLogs", "resourceMetrics", "resourceProfiles")
"""Keys of documents without spans: a file exporter may write logs, metrics and profiles into the same file."""
PEERS: Final = (
    "peer.service",
    "server.address",
    "net.peer.name",
    "messaging.destination.name",
    "db.system.name",
    "db.system",
)
"""Attributes of a client's span that name the callee, the best first."""
RESOLUTION: Final = 0
PORTS: Final = ("server.port", "net.peer.port")


def spans(document: Any) -> Iterator[Span]:
    for resource in entries(document, KEY):
        described = resource.get("resource")
        service = _attribute(described, ("service.name",)) if isinstance(described, dict) else ""
        for scope in (*entries(resource, "scopeSpans"), *entries(resource, "instrumentationLibrarySpans")):
            for span in entries(scope, "spans"):
                yield _span(span, service)


def _span(span: dict[str, Any], service: str) -> Span:
    kind = kind_of(span.get("kind", int(Kind.INTERNAL)))
    # OpenTelemetry lets a receiver take an unspecified kind for internal.
    known = Kind.INTERNAL if kind is Kind.UNSTATED else kind
    return Span(
        text(span.get("traceId")),
        text(span.get("spanId")),
        parent_id(span.get("parentSpanId")),
        known,
        service,
        _attribute(span, PEERS) if known in (Kind.CLIENT, Kind.PRODUCER) else "",
        whole(span.get("startTimeUnixNano")),
        whole(span.get("endTimeUnixNano")),
        port=_attribute(span, PORTS),
    )


def _attribute(owner: dict[str, Any], keys: tuple[str, ...]) -> str:
    attributes: dict[str, str] = {}
    for attribute in entries(owner, "attributes"):
        key, value = attribute.get("key"), attribute.get("value")
        if isinstance(key, str) and key in keys and isinstance(value, dict):
            number = whole(value.get("intValue"))
            attributes.setdefault(key, text(value.get("stringValue")) or (str(number) if number >= 0 else ""))
    return next((attributes[key] for key in keys if attributes.get(key)), "")
