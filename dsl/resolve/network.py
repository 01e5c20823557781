"""What a program says about NetworkPolicies: what an operator states of the cluster, and what is accepted of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.graph.application import Application
from dsl.kinds import prelude
from dsl.program import Kind
from dsl.syntax import tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.text import Span


class Obstacle(NamedTuple):
    """A reason why a NetworkPolicy cannot say what a policy says."""

    what: str
    why: str
    at: Span
    hint: str


def resolve_network(
    statements: Sequence[tree.Declared], application: Application, diagnostics: Diagnostics
) -> tuple[Span | None, Span | None]:
    """The places of `network_policies enforced` and of `accept host_network`, each None without the statement."""
    enforced = _once(
        [item.span for item in statements if isinstance(item, tree.NetworkPolicies)],
        ("ADM121", "a program has one `network_policies enforced`"),
        diagnostics,
    )
    accepted = _once(
        [item.span for item in statements if isinstance(item, tree.Accept)],
        ("ADM122", "a program has one `accept host_network`"),
        diagnostics,
    )
    if accepted is not None and not any(service.host_network for service in application.services.values()):
        diagnostics.note(
            "ADM123",
            "no service of this program has `host_network`",
            accepted,
            cause="so there is nothing to accept, unless the cluster shows a service on the network of its node",
            hint="remove it, or mark such a service `host_network`",
        )
    return enforced, accepted


def _once(spans: Sequence[Span], finding: tuple[str, str], diagnostics: Diagnostics) -> Span | None:
    """The first of the places of a statement; reports the others."""
    code, message = finding
    for span in spans[1:]:
        related = (Related(spans[0], "the first one is here"),)
        diagnostics.error(code, message, span, hint="remove one of them", related=related)
    return spans[0] if spans else None


def obstacles_to_network(
    statement: tree.Policy, kind: Kind, narrowing: Span | None, *, everyone: bool
) -> Iterator[Obstacle]:
    """Why the network cannot be a place of a policy. `everyone` is whether its sources are `*` without exception."""
    if not kind.network:
        able = " and ".join(f"`{name}`" for name, declared in prelude.kinds().items() if declared.kind.network)
        yield Obstacle(
            f"a NetworkPolicy cannot do what `{kind.name}` does",
            f"only {able} can be left to a NetworkPolicy",
            statement.kind.span,
            "remove `accept drop`",
        )
        return
    if narrowing is not None:
        yield Obstacle(
            f"`{narrowing.text}` keeps the policy at an ADM",
            "an ADM answers a call that it refuses, and drops none",
            narrowing,
            f"remove `accept drop` or `{narrowing.text}`",
        )
    if statement.condition is not None:
        yield Obstacle(
            "the policy has a match",
            "a NetworkPolicy sees connections, and no requests",
            statement.condition.span,
            "remove `accept drop`, or the `when` before it",
        )
    if not everyone:
        yield Obstacle(
            f"`{' '.join(statement.scope.sources.span.text.split())[:60]}` is not every caller",
            "a NetworkPolicy lists the callers that it admits, and refuses all others",
            statement.scope.sources.span,
            "remove `accept drop`, or write `on * ->` without an `except`",
        )


def report_accept_drop(
    statement: tree.Policy,
    accept_drop: tree.Flag,
    obstacles: Sequence[Obstacle],
    diagnostics: Diagnostics,
    *,
    enforced: bool,
) -> None:
    """Reports an `accept drop` of a policy that can be enforced at ADMs only, once for each reason. `enforced` is
    whether the program says `network_policies enforced`."""
    if not obstacles and not enforced:
        diagnostics.note(
            "ADM434",
            f"`{statement.name.text}` is enforced at ADMs only, which drop nothing",
            accept_drop.span,
            cause="the program does not say `network_policies enforced`",
            hint="say it, if the network plugin of the cluster enforces them, or remove `accept drop`",
        )
    for obstacle in obstacles:
        diagnostics.error(
            "ADM433",
            f"`{statement.name.text}` cannot accept a drop: {obstacle.what}",
            accept_drop.span,
            cause=obstacle.why,
            hint=obstacle.hint,
            related=(Related(obstacle.at, "this is the reason"),),
        )
