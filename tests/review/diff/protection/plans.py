"""Plans of programs, compiled from text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import dsl
from admc.compile.plan.build import build
from solver.place import place
from tests.fidelity.samples import FILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.compile.plan.model import Plan
    from dsl.program import Program
    from solver.placement import Placement


@dataclass(frozen=True)
class Compiled:
    program: Program
    placement: Placement
    plan: Plan


def compiled(text: str, files: Mapping[str, bytes] = FILES) -> Compiled:
    """Raises `ProgramError` or `PlacementError`."""
    program = dsl.load_text(text, "test.adm", files.__getitem__)
    placement = place(program)
    return Compiled(program, placement, build(program, placement, None))


@cache
def plan_of(text: str) -> Plan:
    return compiled(text).plan
