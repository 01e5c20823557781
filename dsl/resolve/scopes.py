"""Whether a policy can be enforced on the calls in its scope, and warnings about scopes that are easily misread."""

from __future__ import annotations

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.graph.application import Application
from dsl.program import Kind, Place, Protocol
from dsl.resolve.selectors import Destinations, Sources, written
from dsl.syntax import tree


class ScopeChecks:
    """Checks the scopes of one application's policies."""

    def __init__(self, application: Application, diagnostics: Diagnostics) -> None:
        self.application = application
        self.diagnostics = diagnostics

    def check(self, statement: tree.Policy, kind: Kind, destinations: Destinations, calls: tuple[int, ...]) -> None:
        """Reports calls whose protocol the kind or the match does not support, all in one error. For a guard without
        this error, it reports the first destination that has neither a call nor a port that the guard supports."""
        before = self.diagnostics.errors
        self._check_protocols(statement, kind, calls)
        if kind.guard and self.diagnostics.errors == before:
            self._check_uncalled(statement, kind, destinations, calls)

    def _check_protocols(self, statement: tree.Policy, kind: Kind, calls: tuple[int, ...]) -> None:
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
                    "a `tcp` call has no requests",
                    statement,
                    wrong,
                )

    def _check_uncalled(
        self, statement: tree.Policy, kind: Kind, destinations: Destinations, calls: tuple[int, ...]
    ) -> None:
        """Reports the first destination without a declared call and without a port that the guard supports. A guard is
        enforced at all of its destinations."""
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
                    cause="a guard also refuses undeclared callers, so it is enforced even without a declared call",
                    hint=f"leave it out: `except {name}`",
                )
                return

    def _refuse(self, code: str, start: str, cause: str, statement: tree.Policy, wrong: list[int]) -> None:
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
            hint = f"add `{shown}` to the names after `except`"
        ports = {port.protocol for port in self.application.ports(first.destination)}
        if len(scope.destinations.terms) == 1 and isinstance(scope.destinations.terms[0].atom, tree.NameAtom):
            hint = f"use a kind for `{first.port.protocol}`"
            if len(ports) > 1:
                hint = f"name the port: `-> {first.destination}:PORT`"
        self.diagnostics.error(
            code,
            f"{start} the call `{first.source} -> {first.destination}`, which is `{first.port.protocol}`{more}",
            scope.span,
            cause=cause,
            hint=hint,
            related=(Related(first.span, "the call is declared here"),),
        )

    def warn(
        self,
        statement: tree.Policy,
        kind: Kind,
        places: frozenset[Place],
        sources: Sources,
        destinations: Destinations,
        calls: tuple[int, ...],
    ) -> None:
        """Warns of scopes that apply to less than they seem to."""
        name = statement.name.text
        nothing = not sources.names or not destinations.names
        if not calls and not nothing and self.application.all_calls:
            cause = "no declared call goes from its sources to its destinations"
            if kind.guard and destinations.names:
                cause += "; undeclared callers are still refused, at ingress"
                cause += " or in the network" if Place.NETWORK in places else ""
            self.diagnostics.warning(
                "ADM404",
                f"`{name}` applies to no declared call",
                statement.scope.span,
                cause=cause,
                hint="declare the call, or change the scope",
            )
        if calls and not sources.everything and not kind.guard and self.application.all_calls:
            self._warn_of_undeclared(statement, calls)
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

    def _warn_of_undeclared(self, statement: tree.Policy, calls: tuple[int, ...]) -> None:
        """Warns of a named source without a declared call: the policy applies to declared calls only."""
        made = {(self.application.calls[index].source, self.application.calls[index].destination) for index in calls}
        callers = {source for source, _ in made}
        scope = statement.scope
        callees = list(written(scope.destinations))
        missing: list[tuple[tree.Word, str]] = []
        for caller in written(scope.sources):
            if caller.text not in callers and not callees:
                missing.append((caller, f"any destination of `{statement.name.text}`"))
            missing.extend(
                (caller, f"`{callee.text}`")
                for callee in callees
                if (caller.text, callee.text) not in made and caller.text != callee.text
            )
        if not missing:
            return
        caller, callee = missing[0]
        more = "" if len(missing) == 1 else f" (and {len(missing) - 1} more such calls)"
        self.diagnostics.warning(
            "ADM417",
            f"`{caller.text}` is not declared to call {callee}, so `{statement.name.text}` is not enforced there{more}",
            caller.span,
            cause="a named source stands for its declared calls; undeclared calls meet a policy whose source is `*`",
            hint="declare the call, leave it out of the scope, or use a guard to refuse it",
        )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
