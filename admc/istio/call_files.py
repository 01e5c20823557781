"""Reads which workload calls which host from a file: what Prometheus answers about metrics, or a topology."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

from admc.istio.calls import Measured
from admc.istio.in_force.calls import Call, Calls
from admc.istio.mesh.references import DOMAIN
from admc.istio.prometheus import UNREADABLE, measured_of, unreadable
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity, did_you_mean
from dsl.graph.topology import read_topology
from dsl.syntax import tree
from dsl.text import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from admc.istio.mesh.model import Mesh
    from dsl.text import SourceText

Value = TypeVar("Value")
MAX_BYTES: Final = 100_000_000


def read_calls(source: SourceText, mesh: Mesh, findings: Diagnostics) -> Measured | None:
    """The calls of a file; None after an error."""
    try:
        data = json.loads(source.text)
    except (ValueError, RecursionError) as error:
        findings.add(unreadable(source, f"it is no JSON: {str(error)[:200]}"))
        return None
    if isinstance(data, dict) and "calls" in data:
        return _of_topology(source, mesh, findings)
    return measured_of(source, data if isinstance(data, list) else [data], mesh, findings)


def _of_topology(source: SourceText, mesh: Mesh, findings: Diagnostics) -> Measured | None:
    statements = read_topology(source, findings)
    if statements is None:
        return None
    calls: set[Call] = set()
    workloads = _by_name((it.name, it) for it in mesh.workloads)
    services = _by_name((it.name, it) for it in mesh.services)
    externals = _externals(statements)
    for call in statements:
        if not isinstance(call, tree.Call):
            continue
        for caller, callee in _pairs(call):
            for name, known in ((caller, workloads.keys()), (callee, services.keys())):
                if name not in known and name not in externals:
                    message = f"the mesh has no workload and no Service `{name[:100]}`"
                    hint = None if findings.full_of(Severity.WARNING) else did_you_mean(name, sorted(known))
                    findings.add(Diagnostic(UNREADABLE, Severity.WARNING, message, Span(source, 0, 0), None, hint))
            calls |= {
                Call(workload.namespace, workload.name, f"{service.name}.{service.namespace}.svc.{DOMAIN}")
                for workload in workloads.get(caller, ())
                for service in services.get(callee, ())
            }
    return Measured(Calls(frozenset(calls)), source.path, None, 0)


def _by_name(named: Iterable[tuple[str, Value]]) -> dict[str, list[Value]]:
    made: dict[str, list[Value]] = defaultdict(list)
    for name, value in named:
        made[name].append(value)
    return dict(made)


def _externals(statements: list[tree.Statement]) -> frozenset[str]:
    return frozenset(name.text for it in statements if isinstance(it, tree.External) for name in it.names)


def _pairs(call: tree.Call) -> Iterator[tuple[str, str]]:
    for source in call.sources:
        for destination in call.destinations:
            yield source.text, destination.name.text
