"""What Prometheus answers about the metrics of Istio: which workload calls which host.

    answers --> calls, and what they may lack

A call that is missing counts a sidecar as one without a reason, so what makes an answer incomplete is a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.base.terminal import visible
from admc.istio.calls import Measured
from admc.istio.host_names import HostNames
from admc.istio.in_force.calls import Call, Calls
from admc.istio.schemas.checks import violations
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.mesh.model import Mesh

METRICS: Final = frozenset(("istio_requests_total", "istio_tcp_connections_opened_total"))
UNREADABLE: Final = "ADM993"
INCOMPLETE: Final = "ADM995"
_UNKNOWN: Final = "unknown"
_NO_HOSTS: Final = frozenset(("", _UNKNOWN, "passthroughcluster", "blackholecluster"))
"""What Istio writes, in lower case, for a host that it does not know."""
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


def measured_of(source: SourceText, responses: list[Any], mesh: Mesh, findings: Diagnostics) -> Measured | None:
    """The calls of some answers; None after an error."""
    wrong = next((it for response in responses for it in _wrong(response)), None)
    if wrong is not None:
        findings.add(unreadable(source, wrong))
        return None
    all_series = [series for response in responses for series in response["data"]["result"]]
    times = [time for series in all_series for time, _ in series.get("values", ())]
    counted = [series["metric"] for series in all_series if _grew(series, min(times, default=0))]
    named = [labels for labels in counted if labels["source_workload"] != _UNKNOWN]
    to_hosts = [labels for labels in named if labels["destination_service"].lower() not in _NO_HOSTS]
    hosts = HostNames(mesh)
    calls = frozenset(call for labels in to_hosts for call in _calls(labels, hosts))
    for message, cause in _lacks(responses, to_hosts, hosts, mesh):
        hint = (
            "a call that is missing counts a sidecar as one without a reason: compare the query with that of the docs"
        )
        text = f"`{visible(source.path)}`: {message}"
        findings.add(Diagnostic(INCOMPLETE, Severity.WARNING, text, _beginning(source), cause, hint))
    days = (max(times) - min(times)) / _SECONDS_OF_DAY if times else None
    return Measured(Calls(calls), source.path, days, len(counted) - len(named), len(named) - len(to_hosts))


def unreadable(source: SourceText, message: str) -> Diagnostic:
    hint = (
        "give the answer of Prometheus to a query for `istio_requests_total` by `source_workload`, "
        "`source_workload_namespace` and `destination_service`, or a topology with `services` and `calls`"
    )
    text = f"`{visible(source.path)}` has no calls: {message}"
    return Diagnostic(UNREADABLE, Severity.ERROR, text, _beginning(source), None, hint)


def _beginning(source: SourceText) -> Span:
    """The place of a file without its lines: another file may hold secrets."""
    return Span(SourceText(source.path, ""), 0, 0)


def _wrong(response: Any) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if isinstance(response, dict) and response.get("status") == "error":
        kind = response.get("errorType")
        yield f"Prometheus answered with an error{f' ({visible(kind[:100])})' if isinstance(kind, str) else ''}"
    yield from (it.message for it in violations(response, _RESPONSE, UNREADABLE))
    for series in response["data"]["result"]:
        labels = series["metric"]
        yield from (f"a series lacks the label `{name}`" for name in _LABELS if name not in labels)
        if labels.get("__name__", "istio_requests_total") not in METRICS:
            yield f"`{labels['__name__'][:100]}` is not a metric of calls"
        if "value" not in series and "values" not in series:
            yield "a series has neither `value` nor `values`"


def _calls(labels: dict[str, str], hosts: HostNames) -> Iterator[Call]:
    """Yield the calls of a series: those to the hosts of the mesh for which its name stands, or to the name itself."""
    namespace, host = labels["source_workload_namespace"], labels["destination_service"].lower()
    for name in tuple(hosts.of(host.partition(":")[0], namespace)) or (host,):
        yield Call(namespace, labels["source_workload"], name)


def _lacks(
    responses: list[Any], counted: list[dict[str, str]], hosts: HostNames, mesh: Mesh
) -> Iterator[tuple[str, str]]:
    """Yield what the calls may lack, and why."""
    if any(response.get("warnings") or response.get("isPartial") for response in responses):
        yield "Prometheus says that its answer may lack data", "the answer has `warnings`, or `isPartial`"
    if not counted:
        yield (
            "it has no call",
            "it has no series with a caller and a host, or no counter grew in the time of the answer",
        )
        return
    workloads = {(it.namespace, it.name) for it in mesh.workloads}
    callers = [(it["source_workload_namespace"], it["source_workload"]) for it in counted]
    if workloads.isdisjoint(callers):
        example = visible("/".join(callers[0])[:200])
        yield "no caller is a workload of this mesh", f"the callers are others, such as `{example}`"
    elif not any(any(hosts.of(call.host, call.namespace)) for it in counted for call in _calls(it, hosts)):
        example = visible(counted[0]["destination_service"][:200])
        yield "no call is to a host of this mesh", f"the hosts are others, such as `{example}`"


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
