"""Statements to `Program`: resolves all names, and puts all declarations but policies into canonical order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.checks.always_refused import warn_of_refused_callouts, warn_of_refused_calls
from dsl.checks.attempts import note_limits
from dsl.checks.copies import check_targets, warn_of_shares
from dsl.checks.exclusive import check_exclusive
from dsl.checks.loops import check_callouts, warn_of_callback_paths
from dsl.checks.spellings import warn_of_spellings
from dsl.checks.tls import warn_of_tls
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Related, Severity
from dsl.graph.application import declare
from dsl.kinds import prelude
from dsl.kinds.kinds import DeclaredKind, resolve_kind
from dsl.program import Metric, Policy, Program
from dsl.resolve.network import resolve_network
from dsl.resolve.pins import resolve_pins
from dsl.resolve.policies import PolicyResolver
from dsl.resolve.profile import resolve_profile
from dsl.resolve.requests import resolve_requests, with_rates
from dsl.resolve.selectors import Selectors
from dsl.syntax import tree
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.files.reading import Reader

DEFAULT_OBJECTIVE = (Metric.ADMS, Metric.OVERHEAD)


def resolve(
    source: SourceText,
    given: list[tree.Declared],
    reader: Reader,
    diagnostics: Diagnostics,
    *,
    complete: bool,
) -> Program | None:
    """The program, or None after an error; empties `given`.

    `complete` is False if a part of the program was not read.
    """
    app = _app(source, given, diagnostics)
    application = declare(given, diagnostics, complete=complete)
    statements = [item for item in given if not isinstance(item, tree.Service | tree.External | tree.Call)]
    given.clear()
    kinds, broken_kinds = _kinds(statements, reader, diagnostics)
    selectors = Selectors(application, diagnostics)
    network_policies, accepts_host_network = resolve_network(statements, application, diagnostics)
    resolver = PolicyResolver(
        application,
        kinds,
        broken_kinds,
        selectors,
        reader,
        diagnostics,
        network_policies=network_policies is not None,
    )
    policies, broken = _policies(statements, resolver, diagnostics)
    warn_of_tls(application, diagnostics)
    check_exclusive(application, policies.values(), diagnostics)
    scopes = {item.name.text: item.scope for item in statements if isinstance(item, tree.Policy)}
    check_targets(application, policies.values(), scopes, diagnostics)
    check_callouts(application, tuple(policies.values()), scopes, diagnostics)
    warn_of_callback_paths(application, tuple(policies.values()), scopes, diagnostics)
    warn_of_shares(application, policies.values(), diagnostics)
    warn_of_spellings(application, tuple(policies.values()), scopes, diagnostics)
    warn_of_refused_calls(application, tuple(policies.values()), diagnostics)
    warn_of_refused_callouts(application, tuple(policies.values()), diagnostics)
    note_limits(tuple(policies.values()), diagnostics)
    pins = resolve_pins(statements, policies, broken, selectors, application, diagnostics)
    objective = _objective(statements, diagnostics)
    profile = resolve_profile(statements, reader, diagnostics)
    requests = resolve_requests(statements, application, diagnostics)
    calls = with_rates(application.calls, requests, diagnostics)
    if diagnostics.has_errors or app is None:
        return None
    return Program(
        app,
        application.services,
        application.externals,
        calls,
        {name: kinds[name].kind for name in sorted(kinds)},
        tuple(policies.values()),
        pins,
        objective,
        reader.inputs(source.path),
        source,
        in_order(diagnostics, Severity.WARNING),
        in_order(diagnostics, Severity.NOTE),
        profile,
        requests,
        network_policies,
        accepts_host_network,
    )


def in_order(diagnostics: Diagnostics, only: Severity | None = None) -> tuple[Diagnostic, ...]:
    """Findings in the order of their places, of one severity or of all."""

    def place(item: Diagnostic) -> tuple[str, int, str]:
        return ("", -1, item.code) if item.span is None else (item.span.source.path, item.span.start, item.code)

    return tuple(sorted((item for item in diagnostics.items if only in (None, item.severity)), key=place))


def _app(source: SourceText, statements: Sequence[tree.Declared], diagnostics: Diagnostics) -> str | None:
    first: tree.App | None = None
    for statement in statements:
        if isinstance(statement, tree.Broken) and statement.keyword == "app":
            return None
        if not isinstance(statement, tree.App):
            continue
        if statement.span.source is not source:
            diagnostics.error(
                "ADM108",
                f"`{statement.span.source.path}` is used by another program, but has an `app` line",
                statement.span,
                cause="only the main file of a program names the application",
                hint="move the shared statements to a third file without `app`, and `use` that file",
            )
        elif first is not None:
            diagnostics.error(
                "ADM107",
                "a program has one `app` line",
                statement.span,
                hint="remove one of them",
                related=(Related(first.span, "the first one is here"),),
            )
        else:
            first = statement
    if first is None:
        diagnostics.error(
            "ADM106",
            "this program does not name its application",
            Span(source, 0, 0),
            hint="begin it with `app NAME`; a file for a `use` of other programs has none: give one of these programs"
            if statements
            else "begin it with `app NAME`",
        )
        return None
    return first.name.text


def _kinds(
    statements: Sequence[tree.Declared], reader: Reader, diagnostics: Diagnostics
) -> tuple[dict[str, DeclaredKind], frozenset[str]]:
    kinds = dict(prelude.kinds())
    broken: set[str] = set()
    own: dict[str, Span] = {}
    for statement in statements:
        if isinstance(statement, tree.Broken) and statement.keyword == "kind":
            broken.update(statement.names[:1])
        if not isinstance(statement, tree.Kind):
            continue
        name = statement.name.text
        if name in own or name in prelude.kinds():
            built_in = name not in own
            diagnostics.error(
                "ADM105",
                f"`{name}` is a built-in kind" if built_in else f"kind `{name}` is declared twice",
                statement.name.span,
                hint="give yours another name",
                related=() if built_in else (Related(own[name], "first declared here"),),
            )
            if not built_in:
                resolve_kind(statement, reader, diagnostics)  # for its other errors
            continue
        own[name] = statement.name.span
        declared = resolve_kind(statement, reader, diagnostics)
        if declared is None:
            broken.add(name)
        else:
            kinds[name] = declared
    return kinds, frozenset(broken)


def _policies(
    statements: Sequence[tree.Declared], resolver: PolicyResolver, diagnostics: Diagnostics
) -> tuple[dict[str, Policy], frozenset[str]]:
    policies: dict[str, Policy] = {}
    broken: set[str] = set()
    first: dict[str, Span] = {}
    for statement in statements:
        if isinstance(statement, tree.Broken) and statement.keyword == "policy":
            broken.update(statement.names[:1])
        if not isinstance(statement, tree.Policy):
            continue
        name = statement.name.text
        if name in first:
            diagnostics.error(
                "ADM105",
                f"policy `{name}` is declared twice",
                statement.name.span,
                hint="rename one of them",
                related=(Related(first[name], "first declared here"),),
            )
            resolver.resolve(statement)  # for its other errors
            continue
        first[name] = statement.name.span
        policy = resolver.resolve(statement)
        if policy is None:
            broken.add(name)
        else:
            policies[name] = policy
    return policies, frozenset(broken)


def _objective(statements: Sequence[tree.Declared], diagnostics: Diagnostics) -> tuple[Metric, ...]:
    first: tree.Objective | None = None
    known = [metric.value for metric in Metric]
    metrics: list[Metric] = []
    for statement in statements:
        if not isinstance(statement, tree.Objective):
            continue
        if first is not None:
            diagnostics.error(
                "ADM115",
                "a program has one `objective`",
                statement.span,
                hint="remove one of them",
                related=(Related(first.span, "the first one is here"),),
            )
            continue
        first = statement
        for word in statement.metrics:
            if word.text not in known:
                hint = diagnostics.did_you_mean(word.text, known) or "metrics are " + ", ".join(
                    f"`{name}`" for name in known
                )
                diagnostics.error("ADM412", f"there is no metric `{word.text}`", word.span, hint=hint)
            elif word.text in metrics:
                diagnostics.error("ADM412", f"`{word.text}` is minimized already", word.span, hint="name it once")
            else:
                metrics.append(Metric(word.text))
    return DEFAULT_OBJECTIVE if first is None else tuple(metrics)
