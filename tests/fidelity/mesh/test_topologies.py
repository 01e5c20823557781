"""Kinds on each side that they may take, in a few shapes of application, with several replicas at both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fidelity.mesh.topologies import TOPOLOGIES, Topology, accepted, run
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_MESH
EVERY = 6
"""Of the cases of a topology, one in so many; `python -m tests.fidelity.mesh.long` runs all."""


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
def test_compiled_as_judged(topology: Topology, tmp_path: Path) -> None:
    taken, _ = accepted(topology, str(tmp_path), EVERY)
    assert taken
    differences = run(topology, taken, str(tmp_path), Mode.COMPILED)
    assert not differences, "\n".join(map(str, differences))
