"""One placement for many cases, each placed as the compiler places it by itself.

Together, the solver would put policies where other cases need an ADM anyway: what is tried would depend on the company.

A guard may be placed in the network as well. No NetworkPolicy holds on loopback, so what shows here is that the guard
leaves the callers that it admits alone, and that the policies around it are still in order (R6). The callers that it
refuses, and how, are tried in namespaces (`tests.fidelity.mesh.networks`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from solver.placement import Placement, Status
from tests.fidelity.cases import FIRST_PORT, load, text
from tests.fidelity.textbook import adms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dsl.program import Program
    from solver.placement import Decision
    from tests.fidelity.cases import Case


def together(program: Program, cases: Sequence[Case], alone: Mapping[str, Placement]) -> Placement:
    """The placement of the program of all `cases` from those of each, by name."""
    calls = {(call.source, call.destination, call.port.number): index for index, call in enumerate(program.calls)}
    positions = {policy.name: index for index, policy in enumerate(program.policies)}
    decisions = [
        decision
        for index, case in enumerate(cases)
        for decision in _renumbered(load(text([case])), alone[case.name].decisions, calls, index)
    ]
    decisions.sort(key=lambda each: (positions[each.policy], each.destination))
    closed = {each.destination for each in decisions if each.closes}
    return Placement(tuple(decisions), tuple(adms(program, decisions)), tuple(sorted(closed)), Status.FEASIBLE, ())


def _renumbered(
    program: Program, decisions: Iterable[Decision], calls: Mapping[tuple[str, str, int], int], index: int
) -> Iterator[Decision]:
    """Decisions of a case alone, which has the first port, where it has the one of its own number."""

    def number(of: int) -> int:
        return of + index if of == FIRST_PORT else of

    for decision in decisions:
        own = [program.calls[each] for each in decision.calls]
        moved = sorted(calls[call.source, call.destination, number(call.port.number)] for call in own)
        yield replace(decision, calls=tuple(moved), ports=tuple(sorted(map(number, decision.ports))))
