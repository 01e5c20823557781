"""In which order destinations change sides, where ADMs ask services by themselves.

    change -> {destination: round}

For an `external_authorization` an ADM asks a service behind its own filters: such a question carries no marker and
meets nothing that is enforced at the asker's egress, only what the service's own ADM enforces. So while anybody may
ask, what is enforced on the asker has to be at the ingress of who is asked. Where something leaves that ingress, all
askers stop before, and their older connections are closed; where something comes to it, nobody begins to ask before it
is in force. Hence rounds: destinations of one round change sides together, and those of the next one after them.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

from admc.transition.schedule import single
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.program import Side, Verb
from emitters.errors import EmitError
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from admc.transition.change import Change, Entry
    from dsl.program import Policy, Program


class First(NamedTuple):
    """One destination has to be done with before another begins."""

    before: str
    after: str
    asker: str
    helper: str
    entry: Entry
    """For what the asker asks."""
    stops: bool
    """Whether it does so no more; else it begins to."""


def firsts(change: Change) -> tuple[First, ...]:
    """What has to be done in order, in canonical order."""
    old, new = (_questions(change.program, entries.values()) for entries in (change.old, change.new))
    return (
        *(
            First(entry.decision.destination, helper, asker, helper, entry, stops=True)
            for (asker, helper), entries in old.items()
            if (asker, helper) not in new and _concerns(change, change.leaving, asker, helper)
            for entry in entries
        ),
        *(
            First(helper, entry.decision.destination, asker, helper, entry, stops=False)
            for (asker, helper), entries in new.items()
            if (asker, helper) not in old and _concerns(change, change.coming, asker, helper)
            for entry in entries
        ),
    )


def rounds(change: Change) -> Mapping[str, int]:
    """The round of each destination that is not in the first one. Raises `EmitError` where there is no such order."""
    for first in change.firsts:
        if _untimed(change, first):
            raise _unordered(first)
    graph: dict[str, list[str]] = {}
    for first in change.firsts:
        graph.setdefault(first.after, []).append(first.before)
    found: dict[str, int] = {}
    try:
        for name in TopologicalSorter(graph).static_order():
            found[name] = max((found[before] + 1 for before in graph.get(name, ())), default=0)
    except CycleError as error:
        among = frozenset(error.args[1])
        raise _unordered(next(each for each in change.firsts if {each.before, each.after} <= among)) from error
    return {name: number for name, number in sorted(found.items()) if number}


def _questions(program: Program, entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """(whose ADM asks, who is asked) -> for what."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        for helper in _asked(entry.policy):
            for asker in sorted(entry.hosts(program)):
                found.setdefault((asker, helper), []).append(entry)
    return found


def _asked(policy: Policy) -> list[str]:
    """Whom an ADM asks for a policy. What copies requests, or sends them on, is in route tables (`Change.forwards`)."""
    if any(effect.verb in (Verb.COPIES, Verb.ROUTES) for effect in policy.effects or ()):
        return []
    return sorted(set(targets(policy)))


def _concerns(change: Change, moving: Iterable[Entry], asker: str, helper: str) -> bool:
    """Whether something that is about the asker leaves the ingress of who is asked, or comes to it, and is or may be
    somewhere else besides."""
    return helper in change.crossing and any(
        entry.side is Side.INGRESS and entry.decision.destination == helper and asker in entry.policy.sources
        for entry in moving
    )


def _untimed(change: Change, first: First) -> bool:
    """Whether it asks from the first step on, or up to the last one: no route table says when it is skipped."""
    entry = first.entry
    if entry.decision.destination not in change.crossing or not change.moves(entry) or single(change, entry):
        return False
    return not first.stops or entry.side is Side.EGRESS


def _unordered(first: First) -> EmitError:
    name = first.entry.policy.name.partition("~")[0]
    what = "stops asking" if first.stops else "begins to ask"
    return EmitError(
        (
            Diagnostic(
                "ADM855",
                Severity.ERROR,
                f"the ADM of `{first.asker}` {what} `{first.helper}` for `{name}` while policies change sides there, "
                "and no order of steps has all of its questions enforced",
                first.entry.policy.span,
                cause="what an ADM asks by itself meets only what is enforced at the ingress of the service that it "
                "asks, so it stops before policies leave that ingress, or begins after they have come to it; what "
                "else changes would have to be the other way round",
                hint=f"make three plans of it: pin what is about `{first.asker}` at the ingress of `{first.helper}`; "
                "change who asks; take the pins away",
            ),
        )
    )
