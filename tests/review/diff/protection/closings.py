"""The callers that the NetworkPolicies of a placement let pass, and the policies that such callers meet.

Read in docs/rules.md (R7, `network`) and docs/interception.md; nothing here knows the solver, the emitter, or the code
that compares plans. Ports that are not closed stay open to every caller.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place
from tests.fidelity.selecting import policies_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsl.program import Port, Program
    from solver.placement import Decision
    from tests.review.diff.protection.plans import Compiled


class Closed(NamedTuple):
    """A closed target of a destination."""

    admitted: frozenset[str] | None
    """The callers that all guards of the network admit there, declared or not; None without such a guard."""
    declared_only: bool
    """A policy of the senders needs the target closed."""


class Closings:
    """The closed targets of one compiled program."""

    def __init__(self, compiled: Compiled) -> None:
        self._program: Program = compiled.program
        self._decisions = {(each.policy, each.destination): each for each in compiled.placement.decisions}

    @cached_property
    def _targets(self) -> dict[tuple[str, int], Closed]:
        found: dict[tuple[str, int], Closed] = {}
        for decision in self._decisions.values():
            for port in self._program.services[decision.destination].ports if decision.closes else ():
                if port.number in decision.ports:
                    key = decision.destination, port.target
                    found[key] = self._and(found.get(key, Closed(None, declared_only=False)), decision)
        return found

    def _and(self, closed: Closed, decision: Decision) -> Closed:
        if decision.place is not Place.NETWORK:
            return closed._replace(declared_only=True)
        names = self._program.policy_by_name[decision.policy].arguments.get("callers", ())
        assert isinstance(names, tuple)
        its = frozenset(map(str, names))
        return closed._replace(admitted=its if closed.admitted is None else closed.admitted & its)

    def admits(self, parties: Iterable[str], undeclared: str, destination: str, port: Port) -> bool:
        """Whether a caller that may be taken for any of `parties` reaches a port. `undeclared` is a party whose
        declared calls count for nothing here.

        Names decide, not ranges: where a range that a target admits holds a smaller one, the target is closed only if
        it admits the external of that one, too (R7)."""
        closed = self._targets.get((destination, port.target))
        if closed is None:
            return True
        senders = {
            call.source
            for call in self._program.calls
            if (call.destination, call.port.target) == (destination, port.target) and call.source != undeclared
        }
        return any(
            (closed.admitted is None or party in closed.admitted) and (not closed.declared_only or party in senders)
            for party in parties
        )

    def passed_by(self, source: str, destination: str, port: Port, *, on_a_node: bool) -> frozenset[str]:
        """Policies that an undeclared caller does not meet where it passes: those that rely on the closing. A guard of
        the network has judged all but the traffic of the node."""
        return frozenset(
            policy.name
            for policy in policies_of(self._program, source, destination, port)
            if self._relies(self._decisions.get((policy.name, destination)), on_a_node=on_a_node)
        )

    def _relies(self, decision: Decision | None, *, on_a_node: bool) -> bool:
        if decision is None or not decision.closes or Place.INGRESS in decision.place.ends:
            return False
        return on_a_node or decision.place is not Place.NETWORK
