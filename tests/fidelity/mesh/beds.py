"""An application without a mesh, with a sidecar everywhere, or as compiled: started, asked, judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from solver.place import place
from solver.placement import Rule
from solver.verify.verifier import verify
from tests.fidelity.mesh.admitting import Network
from tests.fidelity.mesh.judging import compare, counting
from tests.fidelity.mesh.observing import observe, unlike
from tests.fidelity.textbook import reference
from tests.testbed.mesh import Mesh, Mode
from tests.testbed.network_policies import Refusal

AGAIN = 6
"""How often a request is asked again that was right but late."""

if TYPE_CHECKING:
    from dsl.program import Program
    from solver.placement import Placement, Violation
    from tests.fidelity.compare import Difference
    from tests.fidelity.mesh.admitting import Knock
    from tests.fidelity.mesh.requests import Asked


def bed(program: Program, mode: Mode) -> Mesh:
    """Not started yet."""
    if mode is Mode.NONE:
        return Mesh(program, None, mode)
    if mode.is_compiled:
        return Mesh(program, place(program), mode, refusal=Refusal.DROP)
    # In a textbook every service has a sidecar, whatever the program says of its pods.
    wide = replace(program, services={name: replace(each, hosts_adm=True) for name, each in program.services.items()})
    placement = reference(wide, closing=True)
    assert placement is not None, f"no textbook placement of `{program.app}`"
    wrong = broken(wide, placement)
    assert not wrong, f"the textbook placement of `{program.app}` is not correct: {wrong[0].message}"
    return Mesh(wide, placement, mode, refusal=Refusal.DROP)


def broken(program: Program, placement: Placement) -> list[Violation]:
    """The rules that a textbook placement breaks. It may move a pinned policy, and it has no objective to reach."""
    return [each for each in verify(program, placement) if each.rule not in (None, Rule.PIN)]


def judge(
    program: Program, mode: Mode, asks: Callable[[], Iterable[Asked]], knocks: Sequence[Knock] = ()
) -> list[Difference]:
    """All differences of one application in one mode; of two runs where the first has any.

    What is really different differs again; a busy machine is late, and not always.
    """
    return _once(program, mode, asks(), knocks) and _once(program, mode, asks(), knocks)


def _once(program: Program, mode: Mode, asks: Iterable[Asked], knocks: Sequence[Knock]) -> list[Difference]:
    with bed(program, mode) as mesh:
        network = Network(program, mesh.placement)
        seen = observe(mesh, asks, network, _names(program, mode))
        compared = compare(program, seen, mode, network)
        stubborn = [each for asked, each in compared.late if not _in_time(mesh, program, asked, network)]
        return compared.differences + stubborn + unlike(mesh, knocks, network)


def _in_time(mesh: Mesh, program: Program, asked: Asked, network: Network) -> bool:
    """Whether a request that was late is ever in time, asked by itself."""
    for _ in range(AGAIN):
        seen = observe(mesh, [asked], network, _names(program, mesh.mode))
        compared = compare(program, seen, mesh.mode, network)
        if compared == ([], []):
            return True
    return False


def _names(program: Program, mode: Mode) -> tuple[str, ...]:
    return counting(program) if mode is not Mode.NONE else ()
