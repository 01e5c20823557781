"""Reads spans from Jaeger's JSON, as Jaeger's query service and user interface export it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from admc.cost.traces.json_input import entries, parent_id, text, whole
from admc.cost.traces.otlp import PEERS, PORTS
from admc.cost.traces.spans import MAX_ID, Span, kind_of

KEY: Final = "data"
MICROSECOND: Final = 1000
RESOLUTION: Final = MICROSECOND


def spans(document: Any) -> Iterator[Span]:
    for trace in entries(document, KEY):
        processes = trace.get("processes")
        for span in entries(trace, "spans"):
            process = processes.get(text(span.get("processID"))) if isinstance(processes, dict) else None
            yield _span(span, text(process.get("serviceName")) if isinstance(process, dict) else "")


def _span(span: dict[str, Any], service: str) -> Span:
    tags = {
        tag["key"]: str(tag.get("value"))[: MAX_ID + 1]
        for tag in entries(span, "tags")
        if isinstance(tag.get("key"), str) and tag["key"] in ("span.kind", *PEERS, *PORTS)
    }
    trace = text(span.get("traceID"))
    parent, follows = _parent(span, trace)
    start, duration = whole(span.get("startTime")), span.get("duration")
    end = start + duration if isinstance(duration, int) else -1
    return Span(
        trace,
        text(span.get("spanID")),
        parent,
        kind_of(tags.get("span.kind", "")),
        service,
        next((tags[key] for key in PEERS if tags.get(key)), ""),
        start * MICROSECOND,
        end * MICROSECOND,
        follows,
        next((tags[key] for key in PORTS if tags.get(key)), ""),
    )


def _parent(span: dict[str, Any], trace: str) -> tuple[str, bool]:
    """The id of the parent, and whether the parent does not wait for the span."""
    references = [
        reference for reference in entries(span, "references") if text(reference.get("traceID")) in ("", trace)
    ]
    for kind in ("CHILD_OF", "FOLLOWS_FROM"):
        for reference in references:
            if reference.get("refType") == kind:
                return parent_id(reference.get("spanID")), kind == "FOLLOWS_FROM"
    return parent_id(span.get("parentSpanID")), False
