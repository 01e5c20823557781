"""Estimates the costs of a program's plan, and those of a full mesh for comparison.

Program, Placement -> [Report]
"""

from __future__ import annotations

from typing import NamedTuple

from admc.base.exits import CommandError, Exit
from admc.cost.model.estimate import estimate
from admc.cost.model.full_mesh import FullMesh, full_mesh
from admc.cost.model.layout import of_placement
from admc.cost.model.overhead import Overhead
from admc.cost.profiles.source import NamedProfile, profile_of
from admc.cost.requests.estimate import RequestOverhead, of_requests
from dsl.collector import no_collection
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.program import Program
from solver.placement import Placement


class Report(NamedTuple):
    profile: NamedProfile
    overhead: Overhead
    full_mesh: FullMesh
    requests: tuple[RequestOverhead, ...] = ()


@no_collection()
def report(program: Program, placement: Placement, folder: str = "") -> Report:
    """Estimate a placement by the profile of its program. Raises `CommandError` (exit 1) if there is none, or it
    cannot be used."""
    named = profile_of(program, folder)
    if named is None:
        raise CommandError(
            Exit.INPUT,
            [
                Diagnostic(
                    "ADM871",
                    Severity.ERROR,
                    "the program has no profile, so no cost can be given",
                    None,
                    hint='add a line `profile meshinsight`, or `profile "node.json"` for a file, or give '
                    "`--profile`; `admc profile list` shows the built-in ones",
                )
            ],
            folder,
        )
    overhead = estimate(program, of_placement(program, placement), named.profile)
    requests = of_requests(program, placement, named.profile, overhead)
    return Report(named, overhead, full_mesh(program, placement, named.profile), requests)
