"""What the cluster has shown so far of the services of one program.

    Selection --> FactState (a better fact counts after five minutes)
              --> Endpoints (an address stays its service's while the records of two pods have it)
              --> mismatches

Facts and the owners of addresses depend on history; all else follows from the picture of the cluster and from the plans
that are published. The program and its names of Services never change: another program is followed beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from admc.kubernetes.cluster.core import addresses, mismatches
from admc.kubernetes.cluster.core.addresses import Endpoints
from admc.kubernetes.cluster.core.facts import seen
from admc.kubernetes.cluster.core.selection import selection_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.kubernetes.cluster.core.facts import FactState
    from admc.kubernetes.cluster.core.selection import Selection
    from admc.kubernetes.cluster.core.view import Change, View
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program


@dataclass(frozen=True, slots=True)
class FollowedProgram:
    """A program with the pods, facts, addresses and findings of its services."""

    number: int
    """Distinguishes it from all other programs that the same server follows."""
    names: Mapping[str, str]
    """Service of the program -> its Service, where that has another name (`spec.services`)."""
    selection: Selection
    facts: FactState
    facts_document: bytes
    """`facts` in the form in which a plan relies on them (`admc.compile.facts`)."""
    endpoints: Endpoints
    mismatches: mismatches.ByService

    @property
    def program(self) -> Program:
        return self.selection.program

    def is_for(self, program: Program, names: Mapping[str, str]) -> bool:
        """Whether a new `FollowedProgram` of this program, with these names of Services, would have the same pods."""
        return self.names == names and services_of(self.program) == services_of(program)


def services_of(program: Program) -> dict[str, tuple[str, object]]:
    """Return what a `Selection` needs of a program: namespaces, to find pods, and ports, to check them."""
    return {name: (service.namespace, service.ports) for name, service in program.services.items()}


def follow(
    number: int, program: Program, names: Mapping[str, str], facts: FactState, view: View, now: float
) -> FollowedProgram:
    """Begin to follow a program. `facts` are those that were in force before; `FactState` decides when they end."""
    selection = selection_of(program, names, view)
    own = facts.at(now).of(program.services)
    followed = FollowedProgram(number, dict(names), selection, own, own.document(), Endpoints(), {})
    return _renewed(followed, program.services, frozenset(), now)


def changed(followed: FollowedProgram, change: Change, now: float) -> FollowedProgram:
    """Take over another picture of the cluster."""
    followed = replace(followed, selection=followed.selection.at(change.view))
    return _renewed(followed, concerned(followed, change), followed.endpoints.moved(change.addresses), now)


def concerned(followed: FollowedProgram, change: Change) -> frozenset[str]:
    """Return the services of the program that a change concerns."""
    selection = followed.selection
    return selection.concerned(change.services).union(*(selection.within(name) for name in change.namespaces))


def resting_on(followed: FollowedProgram, programs: Collection[Program], now: float) -> FollowedProgram:
    """Take note that plans of these programs are published (`Selection.resting_on`)."""
    before, selection = followed.selection, followed.selection.resting_on(programs)
    if before.on_host == selection.on_host:
        return followed
    return _renewed(replace(followed, selection=selection), before.on_host ^ selection.on_host, frozenset(), now)


def with_facts(followed: FollowedProgram, facts: FactState, now: float) -> FollowedProgram:
    """Put these facts in force, with those that pods show at present."""
    facts = facts.of(followed.program.services)
    document = facts.document()
    if document == followed.facts_document:
        return followed
    followed = replace(followed, facts=facts, facts_document=document)
    return _renewed(followed, followed.program.services, frozenset(), now)


def at(followed: FollowedProgram, now: float) -> FollowedProgram:
    """End the facts that no pod has shown for long enough."""
    due = followed.facts.next_change
    if due is None or due > now:
        return followed
    facts = followed.facts.at(now)
    return replace(followed, facts=facts, facts_document=facts.document())


def findings(followed: FollowedProgram, controller: str) -> tuple[Diagnostic, ...]:
    """Return where the cluster does not fit the program, for the installation `controller`."""
    return (
        *mismatches.findings(followed.selection, followed.mismatches, controller),
        *addresses.findings(followed.endpoints, followed.selection),
    )


def _renewed(followed: FollowedProgram, names: Collection[str], moved: frozenset[str], now: float) -> FollowedProgram:
    """Look again at the services `names`, and at the addresses `moved`."""
    if not names and not moved:
        return followed
    selection, facts = followed.selection, followed.facts
    for name in names:
        facts = facts.observed(name, seen(selection, name), now, has_pods=bool(selection.pods(name)))
    return replace(
        followed,
        facts=facts,
        facts_document=followed.facts_document if facts is followed.facts else facts.document(),
        endpoints=addresses.renewed(followed.endpoints, selection, names, moved),
        mismatches=mismatches.renewed(followed.mismatches, selection, names),
    )
