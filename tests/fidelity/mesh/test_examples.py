"""Every example: the same requests without a mesh, in a full mesh, and compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsl
from tests.fidelity.mesh.beds import judge
from tests.fidelity.mesh.derive import requests
from tests.fidelity.mesh.judging import unseen
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needed import NEEDS_MESH

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
    differences = judge(program, mode, lambda: requests(program))
    assert not differences, "\n".join(map(str, differences))
