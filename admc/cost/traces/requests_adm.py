"""Writes imported requests as `request` statements, in canonical layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admc.base.decimals import significant
from admc.base.terminal import counted
from admc.cost.traces.directory import Named
from admc.cost.traces.requests import Import, ImportedRequest, Step
from admc.cost.traces.text import taken

NANO_OF_MICRO = 1000


def render(imported_requests: Import) -> str:
    lines = [f"// Of traces: {taken(imported_requests.taken)}.", ""]
    for request in imported_requests.requests:
        lines += [*_request(request, imported_requests.calls), ""]
    return "\n".join(lines[:-1]) + "\n"


def _request(request: ImportedRequest, calls: Sequence[Named]) -> Iterator[str]:
    call = calls[request.root.call]
    yield f"// {counted(request.traces, 'trace')}"
    yield f"request {request.name} on {call.source} -> {_callee(call)} {{"
    if request.rate is not None:
        yield f"  rate {significant(request.rate, 6)}/s"
    yield from _body(request.root, request.traces, calls, "  ")
    yield "}"


def _body(step: Step, count: int, calls: Sequence[Named], indent: str) -> Iterator[str]:
    work = _work(step, count)
    if work:
        yield f"{indent}work {work}"
    for inner in step.sequence:
        yield from _step(inner, "", count, calls, indent)
    for members in step.together:
        yield f"{indent}together {{"
        for member in members:
            yield from _step(member, "", count, calls, indent + "  ")
        yield f"{indent}}}"
    for inner in step.asynchronous:
        yield from _step(inner, "async ", count, calls, indent)


def _step(step: Step, before: str, count: int, calls: Sequence[Named], indent: str) -> Iterator[str]:
    begin = f"{indent}{before}call {_callee(calls[step.call])}"
    attributes = [f"times {step.times}"] if step.times > 1 else []
    if step.sequence or step.together or step.asynchronous:
        yield f"{begin} {{"
        yield from (f"{indent}  {attribute}" for attribute in attributes)
        yield from _body(step, count, calls, indent + "  ")
        yield f"{indent}}}"
        return
    work = _work(step, count)
    inside = "  ".join([*attributes, *([f"work {work}"] if work else [])])
    yield f"{begin} {{ {inside} }}" if inside else begin


def _callee(call: Named) -> str:
    return call.destination if call.port is None else f"{call.destination}:{call.port}"


def _work(step: Step, count: int) -> str:
    """The mean work of the callee, in whole microseconds; empty if it is zero."""
    over = count * step.made * NANO_OF_MICRO
    micro = (2 * step.work + over) // (2 * over)
    if not micro:
        return ""
    return f"{micro // 1000}ms" if micro % 1000 == 0 else f"{micro}us"
