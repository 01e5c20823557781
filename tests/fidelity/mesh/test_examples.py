"""Every example: the same requests without a mesh, in a full mesh, and compiled."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dsl
from tests.fidelity.mesh.beds import judge
from tests.fidelity.mesh.derive import requests
from tests.fidelity.mesh.judging import unseen
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = sorted(Path("examples").glob("*/policies.adm"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_policy_shows_in_some_request(path: Path) -> None:
    program = dsl.load(path)
    assert unseen(program, requests(program)) == []


def _runs() -> Iterator[object]:
    for path, mode in product(EXAMPLES, Mode):
        quick = (path.parent.name, mode) == ("hotel_reservation", Mode.COMPILED)
        yield pytest.param(path, mode, id=f"{path.parent.name}-{mode}", marks=[] if quick else [pytest.mark.long])


@NEEDS_MESH
@pytest.mark.parametrize(("path", "mode"), list(_runs()))
def test_as_judged(path: Path, mode: Mode) -> None:
    program = dsl.load(path)
    differences = judge(program, mode, lambda: requests(program))
    assert not differences, "\n".join(map(str, differences))
