"""One request in all formats, and ways to damage it.

web 0..50 { search 5..25 { geo 7..10, geo 12..15 } beside rate 10..30, then audit 40..140, asynchronous }
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = """\
app shop
profile meshinsight
external internet
service web { http 80 }
service search, rate, geo, audit { http 80 }
call internet -> web { rate 100/s  size 100B }
call web -> search, rate, audit { rate 100/s  size 100B }
call search -> geo { rate 200/s  size 100B }
policy only = allow(callers: [web]) on * -> search
policy counted = rate_limit(requests: 100, per: 1s) on web -> rate
"""


class Call(NamedTuple):
    """Milliseconds as the caller saw them; the callee has one less on both sides, unless it has no span."""

    path: str
    source: str
    destination: str
    begin: int
    end: int
    own_span: bool = True
    kind: str = "rpc"


CALLS = (
    Call("0", "", "web", 0, 50),
    Call("0.1", "web", "search", 5, 25),
    Call("0.1.1", "search", "geo", 7, 10, own_span=False),
    Call("0.1.2", "search", "geo", 12, 15, own_span=False),
    Call("0.2", "web", "rate", 10, 30),
    Call("0.3", "web", "audit", 40, 140, kind="mq"),
)
HEAD = ("timestamp", "traceid", "rpcid", "um", "rpctype", "interface", "dm", "rt")


def rows(calls: Iterable[Call] = CALLS, trace: str = "t1", at: int = 1000) -> list[tuple[Any, ...]]:
    """Rows of the columns of 2021."""
    found: list[tuple[Any, ...]] = []
    for call in calls:
        about = (trace, call.path, call.source or "(?)", call.kind, "x", call.destination)
        found.append((at + call.begin, *about, call.end - call.begin))
        if call.own_span:
            found.append((at + call.begin + 1, *about, -(call.end - call.begin - 2)))
    return found


def csv(path: Path, lines: Iterable[Sequence[Any]], head: Sequence[str] = HEAD) -> Path:
    path.write_text("".join(",".join(str(cell) for cell in line) + "\n" for line in (head, *lines)))
    return path


def parquet(path: Path, lines: Sequence[Sequence[Any]], head: Sequence[str] = HEAD) -> Path:
    import pyarrow as arrow
    import pyarrow.parquet

    columns = [list(column) for column in zip(*lines, strict=True)]
    pyarrow.parquet.write_table(arrow.table(dict(zip(head, columns, strict=True))), path)
    return path


def spans(calls: Iterable[Call] = CALLS, trace: str = "t1", at: int = 1000) -> list[dict[str, Any]]:
    """Spans in OpenTelemetry's form, with the service beside each."""
    found: list[dict[str, Any]] = []
    for call in calls:
        above = call.path.rpartition(".")[0]
        parent = f"server{above}" if above else ""
        queue = call.kind == "mq"
        if call.source:
            client = _span(
                trace, f"client{call.path}", parent, "PRODUCER" if queue else "CLIENT", call.begin, call.end, at
            )
            if not call.own_span:
                client["attributes"] = [{"key": "peer.service", "value": {"stringValue": call.destination}}]
            found.append({"service": call.source, "span": client})
            parent = f"client{call.path}"
        if call.own_span:
            kind = "CONSUMER" if queue else "SERVER"
            server = _span(trace, f"server{call.path}", parent, kind, call.begin + 1, call.end - 1, at)
            found.append({"service": call.destination, "span": server})
    return found


def _span(trace: str, name: str, parent: str, kind: str, begin: int, end: int, at: int) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": name,
        "parentSpanId": parent,
        "kind": f"SPAN_KIND_{kind}",
        "startTimeUnixNano": str((at + begin) * 1_000_000),
        "endTimeUnixNano": (at + end) * 1_000_000,
    }


def otlp(path: Path, found: Sequence[dict[str, Any]], *, lines: bool = False) -> Path:
    """One document, or one for each span."""
    documents = [
        {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": [{"key": "service.name", "value": {"stringValue": each["service"]}}],
                    },
                    "scopeSpans": [{"spans": [each["span"]]}],
                }
                for each in chosen
            ]
        }
        for chosen in ([[each] for each in found] if lines else [found])
    ]
    path.write_text("".join(json.dumps(each, indent=None if lines else 1) + "\n" for each in documents))
    return path


def jaeger(path: Path, found: Sequence[dict[str, Any]]) -> Path:
    spans = [_jaeger_span(each) for each in found]
    processes = {name: {"serviceName": name} for name in {each["service"] for each in found}}
    path.write_text(json.dumps({"data": [{"traceID": "t1", "spans": spans, "processes": processes}]}))
    return path


def _jaeger_span(each: dict[str, Any]) -> dict[str, Any]:
    span = each["span"]
    begin, end = int(span["startTimeUnixNano"]) // 1000, int(span["endTimeUnixNano"]) // 1000
    tags = [{"key": "span.kind", "type": "string", "value": span["kind"].rpartition("_")[2].lower()}]
    tags += [
        {"key": tag["key"], "type": "string", "value": tag["value"]["stringValue"]}
        for tag in span.get("attributes", [])
    ]
    parent = {"refType": "CHILD_OF", "traceID": span["traceId"], "spanID": span["parentSpanId"]}
    return {
        "traceID": span["traceId"],
        "spanID": span["spanId"],
        "references": [parent] if span["parentSpanId"] else [],
        "startTime": begin,
        "duration": end - begin,
        "processID": each["service"],
        "tags": tags,
    }
