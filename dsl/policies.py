"""Policies: a kind with arguments, a scope resolved to declared calls, a match, and the effects that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import syntax
from dsl.conditions import resolve_condition, what_it_reads
from dsl.diagnostics import Diagnostics, Related, did_you_mean
from dsl.entities import Application
from dsl.files import Reader
from dsl.kinds import Constant, Declared, Earlier, Later, effect_order
from dsl.program import Effect, Element, Kind, Policy, Protocol, Side, Value
from dsl.selectors import Destinations, Selectors, Sources
from dsl.values import Bad, Context, convert, describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsl.match import Match
    from dsl.text import Span

_HEADERS = (Element.HEADER, Element.RESPONSE_HEADER)


class PolicyResolver:
    """Resolves the policies of one application, one after the other."""

    def __init__(
        self,
        application: Application,
        kinds: Mapping[str, Declared],
        broken_kinds: frozenset[str],
        selectors: Selectors,
        reader: Reader,
        diagnostics: Diagnostics,
    ) -> None:
        self.application = application
        self.kinds = kinds
        self.broken_kinds = broken_kinds
        self.selectors = selectors
        self.diagnostics = diagnostics
        self.context = Context(diagnostics, reader, application)
        self._scopes: dict[tuple[int, int], tuple[Sources, Destinations, tuple[int, ...]]] = {}

    def resolve(self, statement: syntax.Policy) -> Policy | None:
        """The policy, or None after an error."""
        before = self.diagnostics.errors
        declared = self._kind(statement)
        if declared is None:
            self.selectors.sources(statement.scope.sources)
            self.selectors.destinations(statement.scope.destinations)
            return None
        kind = declared.kind
        arguments = self._arguments(statement, declared)
        sides, narrowing = self._sides(statement, kind)
        sources = self.selectors.sources(statement.scope.sources)
        destinations = self.selectors.destinations(statement.scope.destinations)
        match = None if statement.condition is None else resolve_condition(statement.condition, self.diagnostics)
        if sources is None or destinations is None or arguments is None or self.diagnostics.errors > before:
            return None
        calls = self._calls(sources, destinations)
        self._check_protocols(statement, kind, calls)
        if kind.guard and self.diagnostics.errors == before:
            self._check_uncalled(statement, kind, destinations, calls)
        if self.diagnostics.errors > before:
            return None
        self._warn(statement, kind, sources, destinations, calls)
        return Policy(
            statement.name.text,
            kind,
            arguments,
            sides,
            sources.names,
            sources.everything,
            destinations.names,
            calls,
            _effects(kind, arguments, match),
            statement.span,
            destinations.ports,
            match,
            narrowing,
        )

    def _kind(self, statement: syntax.Policy) -> Declared | None:
        name = statement.kind.text
        declared = self.kinds.get(name)
        if declared is None and name not in self.broken_kinds and self.application.complete:
            self.diagnostics.error(
                "ADM102",
                f"there is no kind named `{name}`",
                statement.kind.span,
                hint=self.diagnostics.did_you_mean(name, self.kinds)
                or "docs/kinds.md lists the built-in kinds; declare your own with `kind`",
            )
        return declared

    # ---- arguments ----

    def _arguments(self, statement: syntax.Policy, declared: Declared) -> Mapping[str, Value] | None:
        kind = declared.kind
        error = self.diagnostics.error
        names = [parameter.name for parameter in kind.parameters]
        signature = f"{kind.name}({', '.join(names)})"
        given: dict[str, syntax.Argument] = {}
        named = None
        unknown = False
        for index, argument in enumerate(statement.arguments):
            if argument.name is None:
                if named is not None:
                    error(
                        "ADM207",
                        f"`{argument.span.text[:60]}` needs a name, since it follows a named argument",
                        argument.span,
                        hint=f"the parameters are `{signature}`",
                    )
                    return None
                if index >= len(names):
                    hint = f"the parameters are `{signature}`"
                    error("ADM207", f"`{kind.name}` takes {_count(len(names))}", argument.span, hint=hint)
                    return None
                given[names[index]] = argument
                continue
            named = name = argument.name.text
            if name not in names:
                unknown = True
                hint = self.diagnostics.did_you_mean(name, names) or f"the parameters are `{signature}`"
                error("ADM205", f"`{kind.name}` has no parameter `{name}`", argument.name.span, hint=hint)
            elif name in given:
                error(
                    "ADM206",
                    f"argument `{name}` is given twice",
                    argument.span,
                    hint="keep one of them",
                    related=(Related(given[name].span, "first given here"),),
                )
            else:
                given[name] = argument
        return self._values(statement, declared, given, unknown=unknown)

    def _values(
        self, statement: syntax.Policy, declared: Declared, given: Mapping[str, syntax.Argument], *, unknown: bool
    ) -> Mapping[str, Value] | None:
        values: dict[str, Value] = {}
        missing: list[str] = []
        bad: set[str] = set()
        for parameter in declared.kind.parameters:
            name = parameter.name
            argument = given.get(name)
            default = declared.defaults.get(name)
            value: Value | Bad
            if argument is not None:
                value = convert(argument.value, parameter.type, self.context)
            elif isinstance(default, Constant):
                value = default.value
            elif isinstance(default, Earlier):
                if default.name in bad or default.name in missing:
                    bad.add(name)
                    continue
                value = values[default.name]
            elif isinstance(default, Later):
                value = convert(default.value, parameter.type, self.context)
            else:
                missing.append(name)
                continue
            if isinstance(value, Bad):
                bad.add(name)
            else:
                values[name] = value
        # A misspelt argument is missing as well, but that is one mistake.
        if missing and not unknown:
            types = {parameter.name: parameter.type for parameter in declared.kind.parameters}
            listed = " and ".join(f"`{name}`" for name in missing)
            self.diagnostics.error(
                "ADM204",
                f"`{declared.kind.name}` needs {listed}",
                statement.kind.span,
                hint="; ".join(f"`{name}` is {describe(types[name])}" for name in missing),
                related=(Related(declared.kind.span, "the kind is declared here"),),
            )
        return None if missing or bad else values

    # ---- sides ----

    def _sides(self, statement: syntax.Policy, kind: Kind) -> tuple[frozenset[Side], Span | None]:
        narrowed: dict[Side, syntax.Annotation] = {}
        error = self.diagnostics.error
        for annotation in statement.annotations:
            name = annotation.name.text
            if name not in ("ingress", "egress") or annotation.arguments:
                error(
                    "ADM301",
                    f"`{annotation.span.text[:60]}` cannot stand before a policy",
                    annotation.span,
                    cause="the annotations of a policy narrow where it may be enforced",
                    hint=did_you_mean(name, ("ingress", "egress")) or "write `@ingress` or `@egress`",
                )
            elif Side(name) in narrowed:
                error("ADM309", f"`@{name}` is given twice", annotation.span, hint="keep one of them")
            else:
                narrowed[Side(name)] = annotation
        allowed = frozenset(kind.sides)
        if not narrowed:
            return allowed, None
        first = next(iter(narrowed.values()))
        where = (Related(kind.span, "the kind is declared here"),)
        sides = allowed & frozenset(narrowed)
        if kind.both and len(sides) < 2:
            error(
                "ADM307",
                f"`{kind.name}` works at both ends, so `{statement.name.text}` cannot be narrowed to one",
                first.span,
                hint=f"remove `{first.span.text}`",
                related=where,
            )
        elif not sides:
            listed = " and ".join(f"`@{side}`" for side in kind.sides)
            error(
                "ADM306",
                f"`{kind.name}` cannot be enforced at {first.name.text}",
                first.span,
                cause=f"the kind allows {listed} only",
                hint=f"remove `{first.span.text}`",
                related=where,
            )
        return sides, first.span

    # ---- scope ----

    def _calls(self, sources: Sources, destinations: Destinations) -> tuple[int, ...]:
        """Declared calls in scope. Scopes are kept, so policies that select the same share one tuple."""
        key = id(sources), id(destinations)
        known = self._scopes.get(key)
        if known is None:
            # Keeping both in the entry keeps their identities from being used again.
            known = sources, destinations, _calls(self.application, sources, destinations)
            self._scopes[key] = known
        return known[2]

    def _check_protocols(self, statement: syntax.Policy, kind: Kind, calls: tuple[int, ...]) -> None:
        every = self.application.calls
        if kind.protocols != frozenset(Protocol):
            wrong = [index for index in calls if every[index].port.protocol not in kind.protocols]
            if wrong:
                carried = " and ".join(f"`{protocol}`" for protocol in Protocol if protocol in kind.protocols)
                self._refuse(
                    "ADM401",
                    f"`{kind.name}` cannot be enforced on",
                    f"`{kind.name}` is for {carried}",
                    statement,
                    wrong,
                )
                return
        if statement.condition is not None:
            wrong = [index for index in calls if every[index].port.protocol is Protocol.TCP]
            if wrong:
                self._refuse(
                    "ADM409",
                    "this match cannot be made on",
                    "a `tcp` call has no requests to look into",
                    statement,
                    wrong,
                )

    def _check_uncalled(
        self, statement: syntax.Policy, kind: Kind, destinations: Destinations, calls: tuple[int, ...]
    ) -> None:
        """A guard also stands where no declared call is in scope, so it has to be able to speak a protocol there."""
        carried = kind.protocols if statement.condition is None else kind.protocols - {Protocol.TCP}
        if carried == frozenset(Protocol):
            return
        application = self.application
        called = {application.calls[index].destination for index in calls}
        for name in destinations.names:
            ports = [p for p in application.ports(name) if destinations.ports is None or p.number in destinations.ports]
            if name not in called and not any(port.protocol in carried for port in ports):
                port = ports[0]
                self.diagnostics.error(
                    "ADM401" if port.protocol not in kind.protocols else "ADM409",
                    f"`{kind.name}` cannot guard port {port.number} of `{name}`, which is `{port.protocol}`",
                    statement.scope.destinations.span,
                    cause="a guard refuses undeclared callers as well, so it stands there even without a declared call",
                    hint=f"leave it out: `except {name}`",
                )
                return

    def _refuse(self, code: str, start: str, cause: str, statement: syntax.Policy, wrong: list[int]) -> None:
        calls = self.application.calls
        first = calls[wrong[0]]
        more = "" if len(wrong) == 1 else f" (and {len(wrong) - 1} more)"
        names = list(dict.fromkeys(calls[index].destination for index in wrong))
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        part = f"except {{{shown}}}" if len(names) > 1 else f"except {shown}"
        scope = statement.scope
        hint = (
            f"narrow the scope: `on {_short(scope.sources.span.text)} -> {_short(scope.destinations.span.text)} {part}`"
        )
        if scope.destinations.without:
            hint = f"add `{shown}` to what `except` leaves out"
        ports = {port.protocol for port in self.application.ports(first.destination)}
        if len(scope.destinations.terms) == 1 and isinstance(scope.destinations.terms[0].atom, syntax.NameAtom):
            hint = f"use a kind for `{first.port.protocol}`"
            if len(ports) > 1:
                hint = f"name the port that is meant: `-> {first.destination}:PORT`"
        self.diagnostics.error(
            code,
            f"{start} the call `{first.source} -> {first.destination}`, which is `{first.port.protocol}`{more}",
            scope.span,
            cause=cause,
            hint=hint,
            related=(Related(first.span, "the call is declared here"),),
        )

    def _warn(
        self, statement: syntax.Policy, kind: Kind, sources: Sources, destinations: Destinations, calls: tuple[int, ...]
    ) -> None:
        name = statement.name.text
        nothing = not sources.names or not destinations.names
        if not calls and not nothing and self.application.complete:
            cause = "no declared call goes from its sources to its destinations"
            if kind.guard and destinations.names:
                cause += "; undeclared callers are still refused, at ingress"
            self.diagnostics.warning(
                "ADM404",
                f"`{name}` applies to no declared call",
                statement.scope.span,
                cause=cause,
                hint="declare the call, or change the scope",
            )
        if sources.everything:
            outside = [name for name in destinations.names if name in self.application.externals]
            if outside:
                more = "" if len(outside) == 1 else f" and {len(outside) - 1} more"
                self.diagnostics.warning(
                    "ADM406",
                    f"`*` means every caller, but only declared callers of `{outside[0]}`{more} meet `{name}`",
                    statement.scope.sources.span,
                    cause="an external cannot be closed to callers that the program does not declare",
                    hint="name the callers, or leave the external out with `except`",
                )


def _calls(application: Application, sources: Sources, destinations: Destinations) -> tuple[int, ...]:
    names = sources.names
    ports = destinations.ports
    calls = application.calls
    every_source = len(names) == len(application.names)
    if every_source and ports is None and len(destinations.names) == len(application.callable):
        return tuple(range(len(calls)))
    if len(names) < len(destinations.names):
        wanted = frozenset(destinations.names)
        indices: Iterable[int] = sorted(
            index
            for name in names
            for index in application.calls_from.get(name, ())
            if calls[index].destination in wanted
        )
    else:
        ranges = (application.calls_to.get(name, range(0)) for name in destinations.names)
        indices = (index for found in ranges for index in found if every_source or calls[index].source in names)
    if ports is not None:
        return tuple(index for index in indices if calls[index].port.number in ports)
    return tuple(indices)


def _effects(kind: Kind, arguments: Mapping[str, Value], match: Match | None) -> tuple[Effect, ...] | None:
    """The kind's effects with header names filled in, plus what the match reads."""
    if kind.effects is None:
        return None
    headers = _headers(kind, arguments)
    found: set[Effect] = set() if match is None else what_it_reads(match)
    for effect in kind.effects:
        if effect.element not in _HEADERS or headers is None:
            found.add(effect)
        elif headers:
            found.add(effect._replace(names=headers))
    return tuple(sorted(found, key=effect_order))


def _headers(kind: Kind, arguments: Mapping[str, Value]) -> frozenset[str] | None:
    """Names given to header parameters; None where the kind has no such parameter, and so means every header."""
    named = [
        parameter.name
        for parameter in kind.parameters
        if "header" in (parameter.type.name, parameter.type.element.name if parameter.type.element else "")
    ]
    if not named:
        return None
    names: set[str] = set()
    for name in named:
        value = arguments[name]
        names.update(str(item) for item in (value if isinstance(value, tuple) else (value,)) if item is not None)
    return frozenset(names)


def _count(number: int) -> str:
    return "no arguments" if number == 0 else "one argument" if number == 1 else f"{number} arguments"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
