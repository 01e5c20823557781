"""Policies: a kind with arguments, a scope resolved to declared calls, a match, and the resulting effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.checks.never import check_match
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.files.reading import Reader
from dsl.graph.application import Application
from dsl.kinds.annotations import NETWORK, effect_order
from dsl.kinds.kinds import DeclaredKind
from dsl.program import Effect, Kind, Place, Policy, Protocol, Value
from dsl.resolve.arguments import Arguments, header_names, header_parameters, report_unwritable
from dsl.resolve.conditions import resolve_condition, what_it_reads
from dsl.resolve.network import obstacles_to_network, report_accept_drop
from dsl.resolve.scopes import ScopeChecks
from dsl.resolve.selectors import Destinations, Selectors, Sources
from dsl.syntax import tree
from dsl.values.headers import ELEMENTS
from dsl.values.typed import Context
from dsl.vocabulary import other_meshes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsl.match import Match
    from dsl.text import Span


class PolicyResolver:
    """Resolves the policies of one application, one after the other."""

    def __init__(
        self,
        application: Application,
        kinds: Mapping[str, DeclaredKind],
        broken_kinds: frozenset[str],
        selectors: Selectors,
        reader: Reader,
        diagnostics: Diagnostics,
        *,
        network_policies: bool,
    ) -> None:
        self.application = application
        self.kinds = kinds
        self.broken_kinds = broken_kinds
        self.network_policies = network_policies
        """Whether the program states that NetworkPolicies are enforced."""
        self.selectors = selectors
        self.diagnostics = diagnostics
        self.arguments = Arguments(Context(diagnostics, reader, application))
        self.checks = ScopeChecks(application, diagnostics)
        self._protocols_of: dict[int, tuple[Destinations, frozenset[Protocol]]] = {}
        self._scopes: dict[tuple[int, int], tuple[Sources, Destinations, tuple[int, ...]]] = {}

    def resolve(self, statement: tree.Policy) -> Policy | None:
        """The policy, or None after an error."""
        before = self.diagnostics.errors
        declared = self._kind(statement)
        if declared is None:
            self.selectors.sources(statement.scope.sources)
            self.selectors.destinations(statement.scope.destinations)
            return None
        kind = declared.kind
        arguments = self.arguments.resolve(statement, declared)
        places, narrowing = self._places(statement, kind)
        sources = self.selectors.sources(statement.scope.sources)
        destinations = self.selectors.destinations(statement.scope.destinations)
        match = None if statement.condition is None else resolve_condition(statement.condition, self.diagnostics)
        if sources is None or destinations is None or arguments is None or self.diagnostics.errors > before:
            return None
        places = self._with_network(statement, kind, places, narrowing, sources)
        calls = self._calls(sources, destinations)
        self.checks.check(statement, kind, destinations, calls)
        if match is not None and statement.condition is not None:
            protocols = self._protocols(kind, sources, destinations, calls)
            check_match(kind, statement.condition, match, protocols, self.diagnostics)
        if self._includes_grpc(sources, destinations, calls):
            names = sorted(_headers(kind, arguments) or ())
            report_unwritable(kind, names, statement.kind.span, self.diagnostics, grpc=True)
        if self.diagnostics.errors > before:
            return None
        self.checks.warn(statement, kind, places, sources, destinations, calls)
        return Policy(
            statement.name.text,
            kind,
            arguments,
            places,
            sources.names,
            sources.everything,
            destinations.names,
            calls,
            _effects(kind, arguments, match),
            statement.span,
            destinations.ports,
            match,
            narrowing,
            None if statement.accept_drop is None else statement.accept_drop.span,
        )

    def _kind(self, statement: tree.Policy) -> DeclaredKind | None:
        name = statement.kind.text
        declared = self.kinds.get(name)
        if declared is None and name not in self.broken_kinds and self.application.complete:
            self.diagnostics.error(
                "ADM102",
                f"there is no kind named `{name}`",
                statement.kind.span,
                hint=other_meshes.kind(name, [_name(argument) for argument in statement.arguments], self.kinds)
                or self.diagnostics.did_you_mean(name, self.kinds)
                or "`admc explain kinds` lists the built-in kinds; declare your own with `kind`",
            )
        return declared

    # ---- places ----

    def _places(self, statement: tree.Policy, kind: Kind) -> tuple[frozenset[Place], Span | None]:
        narrowed: dict[Place, tree.Annotation] = {}
        error = self.diagnostics.error
        for annotation in statement.annotations:
            name = annotation.name.text
            if name not in ("ingress", "egress") or annotation.arguments:
                error(
                    "ADM301",
                    f"`{annotation.span.text[:60]}` is not an annotation of policies",
                    annotation.span,
                    cause="the annotations of a policy narrow the places at which it may be enforced",
                    hint=(f"write `pin {statement.name.text} at network`" if name == NETWORK else None)
                    or other_meshes.side(name, "@")
                    or self.diagnostics.did_you_mean(name, ("ingress", "egress"), "@")
                    or "write `@ingress` or `@egress`",
                )
            elif Place(name) in narrowed:
                error("ADM309", f"`@{name}` is given twice", annotation.span, hint="keep one of them")
            else:
                narrowed[Place(name)] = annotation
        if not narrowed:
            return kind.places - {Place.NETWORK}, None
        first = next(iter(narrowed.values()))
        where = tuple(Related(span, "the kind is declared here") for span in kind.declaration)
        places = kind.places & frozenset(narrowed)
        if kind.both and len(narrowed) == 2:
            return kind.places, first.span
        if kind.both:
            error(
                "ADM307",
                f"`{kind.name}` works at both ends, so `{statement.name.text}` cannot be narrowed to one",
                first.span,
                hint=f"remove `{first.span.text}`",
                related=where,
            )
        elif not places:
            listed = " and ".join(f"`@{side}`" for side in kind.sides)
            error(
                "ADM306",
                f"`{kind.name}` cannot be enforced at {first.name.text}",
                first.span,
                cause=f"the kind allows {listed} only",
                hint=f"remove `{first.span.text}`",
                related=where,
            )
        return places, first.span

    def _with_network(
        self,
        statement: tree.Policy,
        kind: Kind,
        places: frozenset[Place],
        narrowing: Span | None,
        sources: Sources,
    ) -> frozenset[Place]:
        """The places of a policy, with `NETWORK` if the program has `network_policies enforced` and a NetworkPolicy can
        say what the policy says. Reports an `accept drop` if no NetworkPolicy can."""
        if not self.network_policies and statement.accept_drop is None:
            return places
        everyone = sources.everything and len(sources.names) == len(self.application.names)
        obstacles = tuple(obstacles_to_network(statement, kind, narrowing, everyone=everyone))
        if statement.accept_drop is not None:
            report_accept_drop(
                statement, statement.accept_drop, obstacles, self.diagnostics, enforced=self.network_policies
            )
        return places if obstacles or not self.network_policies else places | {Place.NETWORK}

    # ---- scope ----

    def _includes_grpc(self, sources: Sources, destinations: Destinations, calls: tuple[int, ...]) -> bool:
        """Whether a call of a scope, declared or not, uses gRPC."""
        if any(self.application.calls[index].port.protocol is Protocol.GRPC for index in calls):
            return True
        return sources.everything and Protocol.GRPC in self._offered(destinations)

    def _protocols(
        self, kind: Kind, sources: Sources, destinations: Destinations, calls: tuple[int, ...]
    ) -> frozenset[Protocol]:
        """The protocols of the requests in a scope, declared or not; if there are none, those of the kind."""
        protocols = {self.application.calls[index].port.protocol for index in calls}
        if sources.everything or kind.guard:
            protocols |= self._offered(destinations)
        requests = kind.protocols - {Protocol.TCP}
        return frozenset(protocols) & requests or requests

    def _offered(self, destinations: Destinations) -> frozenset[Protocol]:
        """The protocols of the ports of services in a scope. Policies with the same destinations share the answer."""
        known = self._protocols_of.get(id(destinations))
        if known is None:
            services = self.application.services
            offered = frozenset(
                port.protocol
                for name in destinations.names
                if name in services
                for port in services[name].ports
                if destinations.ports is None or port.number in destinations.ports
            )
            # The entry holds the object, so that its identity is not reused.
            known = self._protocols_of[id(destinations)] = destinations, offered
        return known[1]

    def _calls(self, sources: Sources, destinations: Destinations) -> tuple[int, ...]:
        """Indices of the declared calls in scope. Policies with the same scope share one tuple."""
        key = id(sources), id(destinations)
        known = self._scopes.get(key)
        if known is None:
            # The entry holds both objects, so that their identities are not reused.
            known = sources, destinations, _calls(self.application, sources, destinations)
            self._scopes[key] = known
        return known[2]


def _name(argument: tree.Argument) -> str | None:
    return None if argument.name is None else argument.name.text


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
        indices = (
            index for indices_to in ranges for index in indices_to if every_source or calls[index].source in names
        )
    if ports is not None:
        return tuple(index for index in indices if calls[index].port.number in ports)
    return tuple(indices)


def _effects(kind: Kind, arguments: Mapping[str, Value], match: Match | None) -> tuple[Effect, ...] | None:
    """The kind's effects with header names filled in, and the reads of the match."""
    if kind.effects is None:
        return None
    headers = _headers(kind, arguments)
    effects: set[Effect] = set() if match is None else what_it_reads(match)
    for effect in kind.effects:
        if effect.element not in ELEMENTS or headers is None:
            effects.add(effect)
        elif headers:
            effects.add(effect._replace(names=headers))
    return tuple(sorted(effects, key=effect_order))


def _headers(kind: Kind, arguments: Mapping[str, Value]) -> frozenset[str] | None:
    """Names given to header parameters; None where the kind has no such parameter, and so uses every header."""
    named = list(header_parameters(kind))
    if not named:
        return None
    return frozenset(header for name in named for header in header_names(arguments[name]))
