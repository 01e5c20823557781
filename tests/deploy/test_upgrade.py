"""An installation made by hand becomes one of the chart, under traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import tools
from tests.cluster.node.cluster import cluster
from tests.cluster.tools import MissingError
from tests.cluster.traffic.mesh import Mesh
from tests.deploy.upgrade import EARLIER, Upgrade, checkout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.cluster
def test_no_request_is_unenforced_while_the_chart_takes_the_place_of_an_earlier_commit(tmp_path: Path) -> None:
    code, own = tmp_path / "code", tmp_path / "own"
    code.mkdir()
    own.mkdir()
    if not checkout(code):
        pytest.skip(f"this repository does not have the commit {EARLIER}")
    try:
        tools.find(tools.HELM)
        with cluster() as node:
            upgrade = Upgrade(Mesh(node, own), code)
            upgrade.begin()
            stages = upgrade.run()
            upgrade.mesh.end()
    except MissingError as error:
        pytest.skip(str(error))
    assert not [stage for stage in stages if stage.count.wrong], stages
    assert not [stage for stage in stages if stage.count.failed], stages
    assert all(stage.count.requests > 100 for stage in stages), stages
