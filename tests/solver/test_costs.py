"""Costs as whole numbers, of any size that a program may give rise to."""

from __future__ import annotations

import random
import re
from unittest.mock import patch

import pytest

import dsl
from dsl.program import Side
from solver.place import place
from solver.placement import Cost, Costs, Hop, PlacementError, Status
from solver.verify.verifier import verify
from tests.generate import generate

PAIR = """app pair
service a, b { http 80 }
call a -> b { rate RATE }
policy one = access_log() on a -> b
policy two = request_count() on a -> b
"""


def test_a_hop_that_two_policies_share_is_paid_once() -> None:
    """If each policy paid the hop of `b`, that of `a` would be cheaper."""
    program = dsl.load_text(PAIR.replace("RATE", "1/s"))
    costs = Costs(
        known=True,
        enforcement={("a", Side.EGRESS, name, "b"): Cost(30) for name in ("one", "two")},
        hop={Hop("b", Side.INGRESS, "b", 80): Cost(50), Hop("a", Side.EGRESS, "b", 80): Cost(0)},
    )
    found = place(program, costs)
    assert [adm.service for adm in found.adms] == ["b"]
    assert [(level.metric, level.value) for level in found.objectives] == [
        ("adms", 1),
        ("closed", 0),
        ("overhead", 50),
        ("hops", 3600),
    ]
    assert verify(program, found, costs) == ()


def test_a_capacity_rules_out_no_side_that_takes_no_more() -> None:
    """A service that calls itself is the host at either side; what the policy takes at one it does not take at both."""
    program = dsl.load_text(OWN)
    cost = Cost(4_000_000)
    costs = Costs(
        known=True,
        enforcement={("a", side, "one", "a"): cost for side in Side},
        hop={Hop("a", side, "a", 80): cost for side in Side},
    )
    (decision,) = place(program, costs).decisions
    assert set(decision.ruled_out.values()) == {None}


def test_the_largest_rates_are_counted_exactly() -> None:
    program = dsl.load_text(re.sub(r"rate \d+/s", "rate 1000000000000/s", generate(300, 1_000, 200, 2)))
    found = place(program)
    assert found.objectives[-1].value > 1 << 61
    assert found.status is Status.OPTIMAL
    assert verify(program, found) == ()
    # CP-SAT has no whole numbers of this size: the level stays as it is found, and is not called proven.
    with patch("solver.cpsat.model.FEW", 0):
        modelled = place(program, reductions=False)
    assert verify(program, modelled) == ()
    assert [level.value for level in modelled.objectives[:3]] == [level.value for level in found.objectives[:3]]
    assert modelled.objectives[-1].value >= found.objectives[-1].value >= modelled.objectives[-1].bound


OWN = """app own
service a { http 80  capacity 0.01 }
call a -> a { rate 1/s }
policy one = request_count() on * -> a
"""
HUGE = 10**24


@pytest.mark.parametrize("seed", range(20))
def test_loads_of_any_size_are_compared_with_capacities(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT has no whole numbers for these loads, and finds as few ADMs as the enumeration does."""
    rng = random.Random(seed)  # noqa: S311
    program = dsl.load_text(MESH)
    enforcement = {
        (host, side, f"on_{there}", there): Cost(rng.choice([1, 10**9, HUGE, HUGE + 1]))
        for there in "cdef"
        for side, hosts in ((Side.INGRESS, there), (Side.EGRESS, "ab"))
        for host in hosts
    }
    costs = Costs(known=True, enforcement=enforcement)
    found: list[object] = []
    for few in (8, 0):
        monkeypatch.setattr("solver.cpsat.model.FEW", few)
        try:
            placed = place(program, costs)
            assert verify(program, placed, costs) == ()
            # the level of the costs themselves is beyond CP-SAT, too, and not proven
            found.append([(level.metric, level.value, level.bound) for level in placed.objectives[:2]])
        except PlacementError as error:
            found.append([part.span.start for part in error.parts])
    assert found[0] == found[1]


MESH = """app mesh
service a, b, c, d, e, f { http 80  capacity 2 }
call a, b -> c, d, e, f { rate 1/s }
policy on_c = request_count() on {a, b} -> c
policy on_d = request_count() on {a, b} -> d
policy on_e = request_count() on {a, b} -> e
policy on_f = request_count() on {a, b} -> f
"""
