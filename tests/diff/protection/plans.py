"""Plans of programs, compiled from text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from admc.plan.build import build
from solver.place import place
from tests.fidelity.cases import load

if TYPE_CHECKING:
    from admc.plan.model import Plan
    from dsl.program import Program
    from solver.placement import Placement


@dataclass(frozen=True)
class Compiled:
    program: Program
    placement: Placement
    plan: Plan


def compiled(text: str) -> Compiled:
    """Raises `ProgramError` or `PlacementError`."""
    program = load(text)
    placement = place(program)
    return Compiled(program, placement, build(program, placement, None))


@cache
def plan_of(text: str) -> Plan:
    return compiled(text).plan
