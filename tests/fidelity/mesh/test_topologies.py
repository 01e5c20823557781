"""Kinds on each side that they may take, in a few shapes of application, with several replicas at both ends."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fidelity.mesh.beds import broken
from tests.fidelity.mesh.topologies import TOPOLOGIES, Topology, accepted, in_a_full_mesh, load, run, text
from tests.fidelity.textbook import reference
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needed import AS_COMPILED, NEEDS_MESH

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.long, NEEDS_MESH]
EVERY = 6
"""Of the cases of a topology, one in so many; `python -m tests.fidelity.mesh.long` runs all."""


@pytest.fixture
def taps() -> Iterator[str]:
    """A folder in which Envoys of any user may write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield folder


@pytest.mark.parametrize("mode", AS_COMPILED)
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
def test_compiled_as_judged(topology: Topology, taps: str, mode: Mode) -> None:
    taken, _ = accepted(topology, taps, EVERY)
    assert taken
    differences = run(topology, taken, taps, mode)
    assert not differences, "\n".join(map(str, differences))


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
def test_the_textbook_placement_keeps_the_rules(topology: Topology, tmp_path: Path) -> None:
    taps = str(tmp_path)
    taken, _ = accepted(topology, taps, EVERY)
    program = load(text(topology, in_a_full_mesh(topology, taken, taps), taps, narrowed=False))
    placement = reference(program, closing=True)
    assert placement is not None
    assert broken(program, placement) == []


def test_in_a_full_mesh_a_service_that_calls_itself_meets_its_policies(tmp_path: Path) -> None:
    """By its service address too, where the receiver sees the node's address in place of the caller's."""
    topology = next(each for each in TOPOLOGIES if each.name == "oneself")
    taken, _ = accepted(topology, str(tmp_path), EVERY)
    cases = in_a_full_mesh(topology, taken, str(tmp_path))
    assert {"deny", "allow"} & {each.policy.kind for each in cases}
    differences = run(topology, cases, str(tmp_path), Mode.FULL)
    assert not differences, "\n".join(map(str, differences))
