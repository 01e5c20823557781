"""Ways round a policy, for what admits, counts and marks, at each side: nothing slips by, in a full mesh or not."""

from __future__ import annotations

import pytest

from dsl.program import Side
from tests.fidelity.mesh import ways
from tests.fidelity.mesh.beds import judge
from tests.fidelity.mesh.judging import unseen
from tests.fidelity.mesh.requests import declared
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needed import AS_COMPILED_LONG, NEEDS_MESH

pytestmark = NEEDS_MESH


QUICK = "allow"
"""The kind that is part of `make test`."""


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize(
    "kind", [QUICK, *(pytest.param(kind, marks=pytest.mark.long) for kind in ways.POLICIES if kind != QUICK)]
)
@pytest.mark.parametrize("mode", AS_COMPILED_LONG)
def test_compiled_nothing_slips_by(kind: str, side: Side, mode: Mode) -> None:
    _judged(kind, side, mode)


@pytest.mark.long
@pytest.mark.parametrize("kind", ways.POLICIES)
def test_in_a_full_mesh_nothing_slips_by(kind: str) -> None:
    _judged(kind, Side.INGRESS, Mode.FULL)


@pytest.mark.long
def test_without_a_mesh_everything_arrives_as_it_was_sent() -> None:
    _judged("allow", Side.INGRESS, Mode.NONE)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("kind", [kind for kind in ways.POLICIES if kind.endswith("rate_limit")])
def test_one_replica_counts_a_quota_and_the_requests_exceed_it(kind: str, side: Side) -> None:
    program = ways.program(kind, side)
    counting = "near" if side is Side.INGRESS else "caller"
    assert program.services[counting].replicas == 1
    passing = [each for each in ways.requests(program) if side is Side.INGRESS or each.source == counting]
    assert unseen(program, passing) == []


def _judged(kind: str, side: Side, mode: Mode) -> None:
    program = ways.program(kind, side)
    asks = tuple(ways.requests(program))
    assert any(not declared(program, each) for each in asks)
    differences = judge(program, mode, lambda: asks)
    assert not differences, "\n".join(map(str, differences))
