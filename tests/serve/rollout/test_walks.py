"""Through any rollout each request meets what exactly one plan enforces on it, in order."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, assume, event, given, note
from hypothesis import strategies as st

from admc.serve.rollout.model import StepName
from emitters.errors import EmitError
from tests.properties import examples
from tests.serve.rollout.programs import Line, chains, placed
from tests.serve.rollout.walks import Judge, Leg, walk

SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]
TURNS = st.sampled_from((None, None, *StepName))


@examples(150, suppress_health_check=SLOW, phases=(Phase.generate, Phase.shrink))
@given(written=chains(), data=st.data())
def test_every_request_meets_one_plan(written: list[tuple[str, list[Line]]], data: st.DataObject) -> None:
    plans = [placed(*each) for each in written]
    assume(all(plan is not None for plan in plans))
    legs = []
    for number in range(1, len(plans)):
        turn = data.draw(TURNS)
        again = data.draw(st.sampled_from((None, *StepName))) if turn is not None else None
        legs.append(Leg(number, turn, again, aborted=data.draw(st.booleans()) and data.draw(st.booleans())))
    note(" ->\n".join(app + "".join(line.text for line in lines) for app, lines in written) + str(legs))
    try:
        world = walk([plan for plan in plans if plan is not None], legs)
    except EmitError as error:
        event(f"refused: {error.diagnostics[0].message.partition('`')[2].partition('`')[2][:40]}")
        return
    event(f"moves: {any('/' in label.said for label in world.labels)}")
    Judge(world).judge()
