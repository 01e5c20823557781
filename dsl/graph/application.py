"""Services, externals and calls: the application graph to which policies apply."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.graph import bodies
from dsl.graph.bodies import Once, report, written
from dsl.program import Call, External, Port, Service
from dsl.syntax import tree
from dsl.text import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_NAME = 200
_ALL = frozenset(("all", "any", "anyone", "anything", "everyone", "everything"))
"""Words of other languages for everything, which this language writes as `*`."""


@dataclass(eq=False)
class Application:
    """The graph. `broken` are names whose declaration has an error; uses of them are not reported again."""

    services: Mapping[str, Service]
    externals: Mapping[str, External]
    calls: tuple[Call, ...] = ()
    broken: frozenset[str] = frozenset()
    complete: bool = True
    """False if a part of the program was not read: unknown names may be declared there."""
    all_calls: bool = True
    """False if a call does not parse, if its caller, callee or port is unknown, or if `complete` is False: absent calls
    are then not reported."""
    _ranges: dict[str, range] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset((*self.services, *self.externals))

    @cached_property
    def sorted_names(self) -> tuple[str, ...]:
        return tuple(sorted(self.names))

    @cached_property
    def callable(self) -> tuple[str, ...]:
        """Names with a port, in canonical order."""
        return tuple(name for name in self.sorted_names if self.ports(name))

    def ports(self, name: str) -> tuple[Port, ...]:
        service = self.services.get(name)
        return self.externals[name].ports if service is None else service.ports

    @cached_property
    def calls_to(self) -> Mapping[str, range]:
        """Destination -> the indices of the calls to it, which are a range: calls are sorted by destination."""
        ranges: dict[str, range] = {}
        start = 0
        for index in range(1, len(self.calls) + 1):
            if index == len(self.calls) or self.calls[index].destination != self.calls[start].destination:
                ranges[self.calls[start].destination] = range(start, index)
                start = index
        return ranges

    @cached_property
    def calls_from(self) -> Mapping[str, list[int]]:
        indices: dict[str, list[int]] = {}
        for index, call in enumerate(self.calls):
            indices.setdefault(call.source, []).append(index)
        return indices

    def known(self, word: tree.Word, diagnostics: Diagnostics, what: str = "service or external") -> bool:
        """Whether a name is declared. Reports an undeclared name, unless another error explains it."""
        if word.text in self.services or word.text in self.externals:
            return True
        if word.text not in self.broken and self.complete:
            declare = f"declare it: `service {word.text} {{ http 8080 }}` or `external {word.text}`"
            diagnostics.error(
                "ADM101",
                f"there is no {what} named `{word.text}`",
                word.span,
                hint=diagnostics.did_you_mean(word.text, self.sorted_names)
                or (f"all of them are written `*`, as in `on * -> b`; or {declare}" if word.text in _ALL else declare),
            )
        return False


def find_port(
    application: Application,
    name: str,
    port: tree.Word | tree.Number,
    diagnostics: Diagnostics,
) -> Port | None:
    """The port of `name:port`, or None after an error."""
    ports = application.ports(name)
    declared = match_port(ports, port)
    if declared is None and name not in application.broken:
        known = [p.name for p in ports if p.name] + [str(p.number) for p in ports]
        listed = ", ".join(f"`{p.name}` ({p.number})" if p.name else f"`{p.number}`" for p in ports)
        hint = diagnostics.did_you_mean(port.text, known) or (
            f"`{name}` has {listed}" if ports else f"`{name}` has no ports"
        )
        diagnostics.error("ADM104", f"`{name}` has no port `{port.text}`", port.span, hint=hint)
    return declared


def match_port(ports: Sequence[Port], port: tree.Word | tree.Number) -> Port | None:
    if isinstance(port, tree.Number):
        return next((p for p in ports if str(p.number) == port.text), None)
    return next((p for p in ports if p.name == port.text), None)


def the_port(application: Application, reference: tree.Reference, diagnostics: Diagnostics) -> Port | None:
    """The port of a reference to a declared callee, or None after an error."""
    name = reference.name.text
    if reference.port is not None:
        return find_port(application, name, reference.port, diagnostics)
    ports = application.ports(name)
    if name in application.broken:
        return None
    if len(ports) == 1:
        return ports[0]
    if not ports:
        what = "service" if name in application.services else "external"
        diagnostics.error(
            "ADM111",
            f"`{name}` has no port, so nothing can call it",
            reference.span,
            hint=f"give it one: `{what} {name} {{ http 8080 }}`",
        )
        return None
    choices = ", ".join(f"`{name}:{p.name or p.number}`" for p in ports)
    diagnostics.error(
        "ADM112",
        f"`{name}` has {len(ports)} ports, and this names none of them",
        reference.span,
        hint=f"write one of {choices}",
    )
    return None


def declare(statements: Iterable[tree.Declared], diagnostics: Diagnostics, *, complete: bool) -> Application:
    """The graph that statements declare. Errors are reported, and the graph has what is left."""
    services: dict[str, Service] = {}
    externals: dict[str, External] = {}
    first: dict[str, Span] = {}
    broken: set[str] = set()
    calls: list[tree.Call] = []
    readable = True
    for statement in statements:
        if isinstance(statement, tree.Call):
            calls.append(statement)
            continue
        if isinstance(statement, tree.Broken):
            if statement.keyword in ("service", "external"):
                broken.update(statement.names)
            readable = readable and statement.keyword != "call"
            continue
        if not isinstance(statement, tree.Service | tree.External):
            continue
        fresh = [word for word in statement.names if _fresh(word, first, diagnostics)]
        before = diagnostics.errors
        if isinstance(statement, tree.Service):
            for service in bodies.services(statement, fresh, diagnostics):
                services[service.name] = service
        else:
            for external in bodies.externals(statement, fresh, diagnostics):
                externals[external.name] = external
        if diagnostics.errors > before:
            broken.update(word.text for word in fresh)
    application = Application(
        {name: services[name] for name in sorted(services)},
        {name: externals[name] for name in sorted(externals)},
        broken=frozenset(broken),
        complete=complete,
    )
    application.calls, known = _calls(application, calls, diagnostics)
    application.all_calls = complete and readable and known
    return application


def _fresh(word: tree.Word, first: dict[str, Span], diagnostics: Diagnostics) -> bool:
    name = word.text
    if name in first:
        diagnostics.error(
            "ADM105",
            f"`{name}` is declared twice",
            word.span,
            cause="services and externals share one set of names",
            hint="remove or rename one of them",
            related=(Related(first[name], "first declared here"),),
        )
        return False
    if len(name) > MAX_NAME:
        diagnostics.error("ADM210", f"the name `{name[:40]}...` is longer than {MAX_NAME} characters", word.span)
        return False
    first[name] = word.span
    return True


def _calls(
    application: Application, statements: Iterable[tree.Call], diagnostics: Diagnostics
) -> tuple[tuple[Call, ...], bool]:
    """The declared calls in canonical order, each once and without those between externals; and whether every caller,
    callee and port is known."""
    calls: list[Call] = []
    externals = application.externals
    known = True
    for statement in statements:
        rate, size = _load(statement, diagnostics) if statement.items else (None, None)
        sources = [word for word in statement.sources if application.known(word, diagnostics)]
        known = known and len(sources) == len(statement.sources)
        several = len(statement.destinations) > 1
        single = not several and len(statement.sources) == 1
        for reference in statement.destinations:
            name = reference.name.text
            port = (
                the_port(application, reference, diagnostics)
                if application.known(reference.name, diagnostics)
                else None
            )
            if port is None:
                known = False
                continue
            for word in sources:
                if name in externals and word.text in externals:
                    diagnostics.error(
                        "ADM113",
                        f"`{word.text}` and `{name}` are both externals, and calls between them do not pass the mesh",
                        reference.span,
                        hint="remove the call, or declare one of them as a service",
                    )
                    continue
                if single:
                    span = Span(word.span.source, word.span.start, reference.span.end)
                    if word.span.start > reference.span.end or word.span.source is not reference.span.source:
                        span = reference.span
                else:
                    span = reference.span if several else word.span
                calls.append(Call(word.text, name, port, span, rate, size))
    calls.sort(key=_order)
    return _distinct(calls, diagnostics), known


def _order(call: Call) -> tuple[str, str, int]:
    return call.destination, call.source, call.port.number


def _distinct(calls: list[Call], diagnostics: Diagnostics) -> tuple[Call, ...]:
    kept: list[Call] = []
    for call in calls:
        if kept and _order(kept[-1]) == _order(call):
            diagnostics.error(
                "ADM114",
                f"the call `{call.source} -> {call.destination}` is declared twice",
                call.span,
                hint="keep one of them; its `rate` is the rate of all its requests",
                related=(Related(kept[-1].span, "first declared here"),),
            )
        else:
            kept.append(call)
    return tuple(kept)


def _load(statement: tree.Call, diagnostics: Diagnostics) -> tuple[float | None, int | None]:
    rate: float | None = None
    size: int | None = None
    once: Once | None = None
    if len(statement.items) > 2 or (len(statement.items) == 2 and statement.items[0].name == statement.items[1].name):
        once = Once(diagnostics)
    for item in statement.items:
        if once is not None and not once(f"`{item.name}`", item.span):
            continue
        number = item.value
        value = units.rate(written(number)) if item.name == "rate" else units.size(written(number))
        if isinstance(value, units.BadNumber):
            report(value, number.span, diagnostics)
        elif item.name == "rate":
            rate = value
        else:
            size = int(value)
    return rate, size
