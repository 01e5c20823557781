"""Every example: the same requests without a mesh, in a full mesh, and compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dsl
from tests.fidelity.mesh.beds import bed
from tests.fidelity.mesh.derive import requests
from tests.fidelity.mesh.judging import compare, counting, unseen
from tests.fidelity.mesh.observing import observe
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from dsl.program import Program
    from tests.fidelity.compare import Difference

EXAMPLES = sorted(Path("examples").glob("*/policies.adm"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_policy_shows_in_some_request(path: Path) -> None:
    program = dsl.load(path)
    assert unseen(program, requests(program)) == []


@NEEDS_MESH
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_as_judged(path: Path, mode: Mode) -> None:
    program = dsl.load(path)
    differences = _run(program, mode)
    if differences:  # a busy machine is late, and only once: what is really different differs again
        differences = _run(program, mode)
    assert not differences, "\n".join(map(str, differences))


def _run(program: Program, mode: Mode) -> list[Difference]:
    with bed(program, mode) as mesh:
        seen = observe(mesh, requests(program), counting(program) if mode is not Mode.NONE else ())
        closed = mesh.placement.closed if mesh.placement else ()
        return compare(program, seen, mode, closed)
