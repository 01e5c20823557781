"""All rounds, interleaved: no mesh, a full one, and compiled ones by several objectives, in another order each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

import dsl
from admc.compile.explain.answers import stating_network_policies
from admc.cost.measurement.programs import APP
from admc.cost.model.coefficients import coefficients
from admc.cost.profiles.source import built_in
from dsl.program import Metric
from solver.place import place
from solver.rules.options import decision_points
from tests.bench.cost import report
from tests.bench.cost.arm import CostError, Load, Subject, run
from tests.bench.cost.figures import COMPILED, Arm
from tests.bench.errors import SkippedError
from tests.fidelity.textbook import reference
from tests.golang import BuildError, MissingError, build
from tests.testbed.mesh import missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from dsl.program import Program
    from solver.placement import Placement

HOTEL = Path("examples/hotel_reservation/policies.adm")
LOAD = Load(rate=100, warm_up=5, window=15)
"""Little enough for two cores with a full mesh: what is measured is the way of a request, not a queue."""
PROFILE = "shared_2core_envoy_1_40"
"""By which the compiled arms are placed."""
SKIPPED = "what a mesh costs: latency, CPU and memory without one, with a full one and with a compiled one"


def cost(console: Console, folder: Path, rounds: int, load: Load = LOAD, *, as_markdown: bool = False) -> None:
    """Measure and print. Raises `SkippedError`, `CostError`, `tests.testbed.mesh.MeshError`."""
    if lacking := missing():
        raise SkippedError(f"the mesh needs {'; '.join(lacking)}. Skipped without it: {SKIPPED}")
    try:
        app = build(APP, "app")
    except (MissingError, BuildError) as error:
        raise SkippedError(f"{error}. Skipped without it: {SKIPPED}") from None
    program = dsl.load(HOTEL)
    meshes: dict[Arm, tuple[Program, Placement | None]] = {Arm.NONE: (program, None), Arm.FULL: textbook(program)}
    meshes |= {arm: compiled(program, arm) for arm in COMPILED}
    databases = frozenset(name for name, service in program.services.items() if not service.hosts_adm)
    found = []
    for number in range(rounds):
        windows = {}
        for arm in order(number):
            if console.is_terminal:
                console.print(f"round {number + 1} of {rounds}: {arm}", style="dim")
            subject = Subject(*meshes[arm], arm.mode, databases)
            windows[arm] = run(subject, app, load, folder / f"cost-{number}-{arm}")
        found.append(windows)
    if as_markdown:
        console.print(report.markdown(found), soft_wrap=True, markup=False)
    else:
        console.print(*report.tables(found), sep="\n")
    for doubtful, line in report.remarks(found, load):
        console.print(
            Text(f"  {'DOUBTFUL: ' if doubtful else ''}{line}", style="red" if doubtful else ""), soft_wrap=True
        )
    console.print()


def compiled(program: Program, arm: Arm) -> tuple[Program, Placement]:
    """The program of an arm, and the placement by its first metric, with the costs of `PROFILE`.

    Raises `CostError`.
    """
    first = COMPILED[arm]
    objective = (first, Metric.OVERHEAD) if first is Metric.ADMS else (first,)
    stated = stating_network_policies(program) if arm is Arm.NETWORK else program
    if stated is None:
        raise CostError(f"`{program.app}` has no policy that could be in the network")
    wanted = replace(stated, objective=objective)
    points = decision_points(wanted)
    return wanted, place(wanted, coefficients(wanted, points, built_in(PROFILE).profile), points=points)


def textbook(program: Program) -> tuple[Program, Placement]:
    """A sidecar at every service, whatever the program says of its pods, and every policy where textbooks put it.

    Raises `CostError`.
    """
    wide = replace(program, services={name: replace(each, hosts_adm=True) for name, each in program.services.items()})
    placement = reference(wide)
    if placement is None:
        raise CostError(f"`{program.app}` has no full mesh with every policy at its textbook side")
    return wide, placement


def order(number: int) -> Sequence[Arm]:
    """The arms of one round: over as many rounds each has each turn equally often."""
    arms = list(Arm)
    turn = number % len(arms)
    return arms[turn:] + arms[:turn]
