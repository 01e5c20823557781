"""Resolves requests: each step becomes one declared call, and the rates of requests add up to rates of calls.

If a request that makes the call has no rate, a call without a rate stays so. Otherwise:

the call declares    the requests make it    the rate of the call
no rate              r times a second        r
rate d               r <= d times a second   d: the remaining calls are other traffic
rate d               r > d times a second    an error
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.graph.application import Application, the_port
from dsl.graph.bodies import Once, report, written
from dsl.program import Call
from dsl.requests import (
    MAX_CALLS,
    MAX_OUTCOMES,
    MAX_STEPS,
    MAX_TIMES,
    Grouping,
    Request,
    Step,
    StepGroup,
    calls_made,
    outcomes,
)
from dsl.syntax import tree
from dsl.words import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.text import Span

_Key = tuple[str, str, int]
SHOWN = 4


def resolve_requests(
    statements: Iterable[tree.Declared], application: Application, diagnostics: Diagnostics
) -> tuple[Request, ...]:
    """All requests without an error, by name."""
    resolver: _Resolver | None = None
    requests: dict[str, Request | None] = {}
    first: dict[str, Span] = {}
    for statement in statements:
        if not isinstance(statement, tree.Request):
            continue
        resolver = resolver or _Resolver(application, diagnostics)
        name = statement.name
        request = resolver.request(statement)
        if name.text in first:
            diagnostics.error(
                "ADM105",
                f"request `{name.text}` is declared twice",
                name.span,
                hint="rename one of them",
                related=(Related(first[name.text], "first declared here"),),
            )
            continue
        first[name.text] = name.span
        requests[name.text] = request
    return tuple(request for _, request in sorted(requests.items()) if request is not None)


class _Resolver:
    def __init__(self, application: Application, diagnostics: Diagnostics) -> None:
        self.application = application
        self.diagnostics = diagnostics
        self.calls = frozenset((call.source, call.destination, call.port.number) for call in application.calls)

    def request(self, statement: tree.Request) -> Request | None:
        before = self.diagnostics.errors
        known = self.application.known(statement.source, self.diagnostics)
        once = Once(self.diagnostics)
        rate = None
        for item in statement.items:
            if isinstance(item, tree.Attribute) and item.name == "rate" and once("`rate`", item.span):
                rate = self._number(units.exact_rate(written(item.value)), item)
        body = tuple(item for item in statement.items if not (isinstance(item, tree.Attribute) and item.name == "rate"))
        root = self._step(statement.source.text if known else None, statement.callee, body)
        if root is None or self.diagnostics.errors > before:
            return None
        request = Request(statement.name.text, statement.name.span, rate, root)
        return request if self._bounded(request) else None

    def _step(self, source: str | None, callee: tree.Reference, items: Sequence[tree.RequestItem]) -> Step | None:
        """The step, or None if it is no declared call. All errors in it and in its inner steps are reported. `source`
        is None if the caller is unknown."""
        known = self.application.known(callee.name, self.diagnostics)
        port = the_port(self.application, callee, self.diagnostics) if known else None
        name = callee.name.text
        declared = source is not None and port is not None and self._declared((source, name, port.number), callee)
        attributes = self._attributes(items)
        groups = self._groups(name if known else None, items)
        if source is None or port is None or not declared:
            return None
        return Step(
            source,
            name,
            port.number,
            callee.span,
            Fraction(attributes.get("chance", 1)),
            int(attributes.get("times", 1)),
            int(attributes.get("work", 0)) * 1000,
            groups,
        )

    def _declared(self, key: _Key, callee: tree.Reference) -> bool:
        if key in self.calls or not self.application.all_calls:
            return key in self.calls
        source, name, number = key
        called = [call for index in self.application.calls_from.get(source, ()) for call in (self._call(index),)]
        other = next((call.port for call in called if call.destination == name), None)
        if other is not None:
            hint = f"`{source}` calls `{name}:{other.name or other.number}`"
        else:
            written_port = f":{number}" if len(self.application.ports(name)) > 1 else ""
            hint = self.diagnostics.did_you_mean(name, sorted({call.destination for call in called})) or (
                f"declare it: `call {source} -> {name}{written_port}`"
            )
        self.diagnostics.error(
            "ADM117",
            f"no call from `{source}` to `{callee.span.text}` is declared",
            callee.span,
            cause="each step of a request is a declared call, since policies apply to calls",
            hint=hint,
        )
        return False

    def _call(self, index: int) -> Call:
        return self.application.calls[index]

    def _attributes(self, items: Iterable[tree.RequestItem]) -> dict[str, Fraction | int]:
        once = Once(self.diagnostics)
        attributes: dict[str, Fraction | int] = {}
        for item in items:
            if not isinstance(item, tree.Attribute) or not once(f"`{item.name}`", item.span):
                continue
            text = written(item.value)
            value: Fraction | int | units.BadNumber
            if item.name == "chance":
                value = units.chance(text)
            elif item.name == "times":
                value = units.integer(text, 1, MAX_TIMES, "a number of times")
            else:
                value = units.duration(text)
            number = self._number(value, item)
            if number is not None:
                attributes[item.name] = number
        return attributes

    def _number(self, value: Fraction | int | units.BadNumber, item: tree.Attribute) -> Fraction | None:
        if isinstance(value, units.BadNumber):
            report(value, item.value.span, self.diagnostics)
            return None
        return Fraction(value)

    def _groups(self, source: str | None, items: Iterable[tree.RequestItem]) -> tuple[StepGroup, ...]:
        sequence: list[Step | None] = []
        together: list[StepGroup] = []
        asynchronous: list[Step | None] = []
        for item in items:
            if isinstance(item, tree.Step):
                sequence.append(self._step(source, item.callee, item.items))
            elif isinstance(item, tree.Together):
                steps = [self._step(source, step.callee, step.items) for step in item.steps]
                together.append(_group(Grouping.TOGETHER, steps))
            elif isinstance(item, tree.AsyncCall):
                asynchronous.append(self._step(source, item.step.callee, item.step.items))
        together.sort(key=_group_key)
        groups = (_group(Grouping.SEQUENCE, sequence), *together, _group(Grouping.ASYNC, asynchronous))
        return tuple(group for group in groups if group.steps)

    def _bounded(self, request: Request) -> bool:
        steps = sum(1 for _ in request.steps())
        made = calls_made(request.root)
        if steps > MAX_STEPS or made > MAX_CALLS:
            self.diagnostics.error(
                "ADM119",
                f"the request `{request.name}` has {steps} steps and makes up to {made} calls"
                if made < 10**15
                else f"the request `{request.name}` makes more than 10^15 calls",
                request.span,
                cause=f"a request has at most {MAX_STEPS} steps and makes at most {MAX_CALLS} calls",
                hint="divide it into several requests",
            )
            return False
        if outcomes(request.root) > MAX_OUTCOMES:
            self.diagnostics.error(
                "ADM120",
                f"the chances of the request `{request.name}` have more than {MAX_OUTCOMES} outcomes",
                request.span,
                cause="its mean latency is exact, so every outcome counts; each call with a chance of its own doubles "
                "their number",
                hint="divide it into several requests, each with a share of the rate instead of a chance; `async` "
                "calls do not count",
            )
            return False
        return True


def _group(grouping: Grouping, steps: Iterable[Step | None]) -> StepGroup:
    return StepGroup(grouping, tuple(sorted((step for step in steps if step is not None), key=_step_key)))


def _step_key(step: Step) -> tuple[object, ...]:
    return (
        step.destination,
        step.port,
        step.chance,
        step.times,
        step.work,
        tuple(_group_key(group) for group in step.groups),
    )


def _group_key(group: StepGroup) -> tuple[object, ...]:
    return group.grouping.value, tuple(_step_key(step) for step in group.steps)


# ---- rates of calls ----


def with_rates(calls: tuple[Call, ...], requests: Sequence[Request], diagnostics: Diagnostics) -> tuple[Call, ...]:
    """The calls, with the sum of the rates of requests where a call declares no rate and each request that makes it has
    one. Reports calls that declare less than this sum."""
    made: dict[_Key, list[tuple[Request, Step, Fraction]]] = {}
    for request in requests:
        for step, times in request.steps():
            made.setdefault(step.call, []).append((request, step, times))
    if not made:
        return calls
    rated = []
    for call in calls:
        rows = made.get((call.source, call.destination, call.port.number), ())
        total = sum((request.rate * times for request, _, times in rows if request.rate is not None), Fraction(0))
        if call.rate is not None and float(total) > call.rate:
            _report_excess(call, rows, total, diagnostics)
        complete = bool(rows) and all(request.rate is not None for request, _, _ in rows)
        rated.append(call._replace(rate=units.nearest_rate(total)) if call.rate is None and complete else call)
    return tuple(rated)


def _report_excess(
    call: Call, rows: Sequence[tuple[Request, Step, Fraction]], total: Fraction, diagnostics: Diagnostics
) -> None:
    by_request: dict[str, Fraction] = {}
    places: dict[str, Span] = {}
    for request, step, times in rows:
        if request.rate is not None:
            by_request[request.name] = by_request.get(request.name, Fraction(0)) + request.rate * times
            places.setdefault(request.name, step.span)
    most = sorted(by_request, key=lambda name: (-by_request[name], name))
    shown = few([f"`{name}` {_per_second(by_request[name])}" for name in most], SHOWN)
    diagnostics.error(
        "ADM118",
        f"requests make {_per_second(total)} of the call `{call.source} -> {call.destination}`, which declares "
        f"{_per_second(Fraction(repr(call.rate)))}",
        places[most[0]],
        cause=f"with their chances and `times`, these are {shown}",
        hint="declare the rate of all its requests, or none: it is then that of the requests",
        related=(Related(call.span, "the call is declared here"),),
    )


def _per_second(rate: Fraction) -> str:
    return f"{float(rate):.12g}/s"
