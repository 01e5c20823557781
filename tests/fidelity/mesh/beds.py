"""The three ways in which an application runs: no mesh, a sidecar everywhere, and what the compiler makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from solver.place import place
from tests.fidelity.reference import reference
from tests.testbed.mesh import Mesh, Mode

if TYPE_CHECKING:
    from dsl.program import Program


def bed(program: Program, mode: Mode) -> Mesh:
    """Not started yet."""
    if mode is Mode.NONE:
        return Mesh(program, None, mode)
    if mode is Mode.COMPILED:
        return Mesh(program, place(program), mode)
    # In a textbook every service has a sidecar, whatever the program says of its pods.
    wide = replace(program, services={name: replace(each, hosts_adm=True) for name, each in program.services.items()})
    placement = reference(wide, closing=True)
    assert placement is not None, f"no textbook placement of `{program.app}`"
    return Mesh(wide, placement, mode)
