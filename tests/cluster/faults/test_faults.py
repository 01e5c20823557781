"""Two of the faults of `python -m tests.cluster.faults`, with less patience for older connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.serve.rollout.model import StepName
from tests.cluster.faults.bed import Bed
from tests.cluster.faults.faults import FAULTS
from tests.cluster.faults.table import printed, row
from tests.cluster.node.cluster import cluster
from tests.cluster.tools import MissingError
from tests.cluster.traffic.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DRAIN_SECONDS = 8
FEWEST = 500
"""Requests of a row: both senders call all the time."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    folder: Path = tmp_path_factory.mktemp("faults")
    try:
        with cluster() as node:
            found = Bed(Mesh(node, folder), DRAIN_SECONDS)
            found.begin()
            yield found
            found.end()
    except MissingError as error:
        pytest.skip(str(error))


@pytest.mark.cluster
@pytest.mark.parametrize(("name", "step"), [("killed", StepName.RECEIVERS), ("envoys", StepName.SENDERS)])
def test_no_request_is_unenforced_and_no_step_is_taken_twice(bed: Bed, name: str, step: StepName) -> None:
    (fault,) = (each for each in FAULTS if each.name == name)
    found = row(bed, fault, step)
    print(printed([found]))
    assert not found.is_wrong, printed([found])
    assert found.count.requests > FEWEST
    assert found.count.failed.total() == found.away, printed([found])
