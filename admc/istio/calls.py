"""Which workload calls which host: as Prometheus says it about metrics, or a topology, or by a guess."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.in_force.calls import Call, Calls
from admc.istio.mesh.references import DOMAIN
from admc.istio.schemas.checks import violations
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity, did_you_mean
from dsl.graph.topology import read_topology
from dsl.syntax import tree
from dsl.text import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.mesh.model import Mesh, Place
    from dsl.text import SourceText

MAX_BYTES: Final = 100_000_000
METRICS: Final = frozenset(("istio_requests_total", "istio_tcp_connections_opened_total"))
_CODE: Final = "ADM993"
_UNKNOWN: Final = "unknown"
_LABELS: Final = ("source_workload", "source_workload_namespace", "destination_service")
_TEXT: Final = {"type": "string"}
_SAMPLE: Final = {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "number"}, _TEXT]}
_SERIES: Final = {
    "type": "object",
    "properties": {
        "metric": {"type": "object", "additionalProperties": _TEXT},
        "value": _SAMPLE,
        "values": {"type": "array", "items": _SAMPLE},
    },
    "required": ["metric"],
}
_RESPONSE: Final = {
    "type": "object",
    "properties": {
        "status": {"enum": ["success"]},
        "data": {
            "type": "object",
            "properties": {"resultType": {"enum": ["vector", "matrix"]}, "result": {"type": "array", "items": _SERIES}},
            "required": ["resultType", "result"],
        },
    },
    "required": ["status", "data"],
}
_SECONDS_OF_DAY: Final = 86_400


class Guess(NamedTuple):
    """A call that is guessed, since a text has a name of the host."""

    call: Call
    place: Place
    """The value with the text."""
    line: int
    """The line of the text that has the name, from 1."""


class Measured(NamedTuple):
    """Calls that were given."""

    calls: Calls
    source: str
    days: float | None
    """Over how many days they were measured; None where the file does not say it."""
    unattributed: int
    """Series whose caller has no sidecar, and so no name."""
    guesses: tuple[Guess, ...] | None = None
    """Where each call is guessed from; None if the calls are no guesses."""

    @property
    def is_guess(self) -> bool:
        return self.guesses is not None


def read_calls(source: SourceText, mesh: Mesh, findings: Diagnostics) -> Measured | None:
    """The calls of a file; None after an error."""
    try:
        data = json.loads(source.text)
    except (ValueError, RecursionError) as error:
        findings.add(_wrong(source, f"it is no JSON: {str(error)[:200]}"))
        return None
    if isinstance(data, dict) and "calls" in data:
        return _of_topology(source, mesh, findings)
    responses = data if isinstance(data, list) else [data]
    for response in responses:
        for violation in violations(response, _RESPONSE, _CODE):
            findings.add(_wrong(source, violation.message))
            return None
    return _of_metrics(source, responses, findings)


def _wrong(source: SourceText, message: str) -> Diagnostic:
    # Lines of the file are not shown: another file may hold secrets.
    hint = (
        "give the answer of Prometheus to a query for `istio_requests_total`, or a topology with `services` and `calls`"
    )
    span = Span(source.blank(), 0, 0)
    return Diagnostic(_CODE, Severity.ERROR, f"`{source.path}` has no calls: {message}", span, None, hint)


def _of_metrics(source: SourceText, responses: list[Any], findings: Diagnostics) -> Measured | None:
    calls: set[Call] = set()
    all_series = [it for response in responses for it in response["data"]["result"]]
    times = [time for series in all_series for time, _ in series.get("values", ())]
    unattributed = 0
    for series in all_series:
        labels = series["metric"]
        missing = [name for name in _LABELS if name not in labels]
        if missing:
            findings.add(_wrong(source, f"a series lacks the label `{missing[0]}`"))
            return None
        if labels.get("__name__", "istio_requests_total") not in METRICS:
            findings.add(_wrong(source, f"`{labels['__name__'][:100]}` is not a metric of calls"))
            return None
        if not _grew(series, min(times, default=0)):
            continue
        if labels["source_workload"] == _UNKNOWN:
            unattributed += 1
        else:
            host = labels["destination_service"].lower()
            calls.add(Call(labels["source_workload_namespace"], labels["source_workload"], host))
    days = (max(times) - min(times)) / _SECONDS_OF_DAY if times else None
    return Measured(Calls(frozenset(calls)), source.path, days, unattributed)


def _grew(series: Any, start: float) -> bool:
    """Whether a counter counted a call in the time of its samples. One that has its value from before did not."""
    samples = series.get("values") or ([series["value"]] if "value" in series else [])
    if not any(_is_positive(value) for _, value in samples):
        return False
    values = {value for _, value in samples}
    return len(samples) == 1 or len(values) > 1 or samples[0][0] > start


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def _of_topology(source: SourceText, mesh: Mesh, findings: Diagnostics) -> Measured | None:
    statements = read_topology(source, findings)
    if statements is None:
        return None
    calls: set[Call] = set()
    for call in statements:
        if not isinstance(call, tree.Call):
            continue
        for caller, callee in _pairs(call):
            workloads = [it for it in mesh.workloads if it.name == caller]
            services = [it for it in mesh.services if it.name == callee]
            for name, there, known in (
                (caller, workloads, {it.name for it in mesh.workloads}),
                (callee, services, {it.name for it in mesh.services}),
            ):
                if not there and name not in _externals(statements):
                    message = f"the mesh has no workload and no Service `{name[:100]}`"
                    hint = did_you_mean(name, sorted(known))
                    findings.add(Diagnostic(_CODE, Severity.WARNING, message, Span(source, 0, 0), None, hint))
            calls |= {
                Call(workload.namespace, workload.name, f"{service.name}.{service.namespace}.svc.{DOMAIN}")
                for workload in workloads
                for service in services
            }
    return Measured(Calls(frozenset(calls)), source.path, None, 0)


def _externals(statements: list[tree.Statement]) -> frozenset[str]:
    return frozenset(name.text for it in statements if isinstance(it, tree.External) for name in it.names)


def _pairs(call: tree.Call) -> Iterator[tuple[str, str]]:
    for source in call.sources:
        for destination in call.destinations:
            yield source.text, destination.name.text
