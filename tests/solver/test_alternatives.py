"""The difference that one decision makes is that of the two whole placements."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, event, given

from solver.alternatives import Alternatives
from solver.place import place
from solver.placement import PlacementError
from solver.rules.options import decision_points
from tests.properties import examples
from tests.solver import oracle
from tests.solver.build import Assignment, minimized
from tests.solver.generate import case
from tests.solver.test_optimal import RANDOM


@examples(60, suppress_health_check=list(HealthCheck))
@given(RANDOM)
def test_a_difference_is_that_of_whole_placements(rng: random.Random) -> None:
    of = case(rng, priced=True)
    try:
        found = place(of.program, of.costs)
    except PlacementError:
        return
    alternatives = Alternatives(of.program, decision_points(of.program), found, of.costs)
    metrics = minimized(of.program, of.costs)
    taken: Assignment = {(each.policy, each.destination): each.place for each in found.decisions}
    now = oracle.values(of.program, taken, of.costs)
    for decision in found.decisions:
        for at, reason in decision.ruled_out.items():
            if reason is None:
                then = oracle.values(of.program, {**taken, (decision.policy, decision.destination): at}, of.costs)
                pairs = zip(metrics, now, then, strict=True)
                wanted = next(((metric, two - one) for metric, one, two in pairs if one != two), None)
                assert alternatives.difference(decision, at) == wanted
                event("equal" if wanted is None else wanted[0])
