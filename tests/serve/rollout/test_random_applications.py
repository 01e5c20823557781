"""As test_walks, with random applications: other graphs, other policies, and calls that come and go."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, Phase, assume, event, given, note
from hypothesis import strategies as st

from admc.serve.rollout.diff import Diff
from admc.serve.rollout.model import Placed, StepName
from dsl import load_text
from dsl.diagnostics.diagnostic import ProgramError
from emitters.errors import EmitError
from solver.place import place
from solver.placement import PlacementError
from tests.dsl.strategies import graphs, policies
from tests.properties import examples
from tests.serve.rollout.walks import Judge, Leg, walk

SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]


def placed(lines: list[str], rules: list[str], sides: list[str]) -> Placed | None:
    """The plan of a program. A pin that its policy cannot have is left out."""
    pins: list[str] = []
    found = None
    names = [rule.partition("policy ")[2].split()[0] for rule in rules]
    for pin in ("", *(f"pin {name} at {side}" for name, side in zip(names, sides, strict=True))):
        try:
            program = load_text("\n".join(("app random", *lines, *rules, *pins, pin, "")))
            found = Placed(program, place(program))
        except (ProgramError, PlacementError):
            continue
        pins.append(pin)
    return found


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[Placed], str]:
    """Two or three plans of one application: policies change sides, come, go, and change places."""
    lines, protocols, pairs = draw(graphs())
    rules = draw(policies(protocols, pairs))
    found, texts = [], []
    for _ in range(draw(st.integers(2, 3))):
        sides = [draw(st.sampled_from(("ingress", "egress", "egress"))) for _ in rules]
        texts.append("\n".join((*lines, *rules, *sides)))
        found.append(placed(lines, rules, sides))
        if draw(st.booleans()) and draw(st.booleans()):
            rules = draw(st.permutations(rules))
        if rules and draw(st.booleans()) and draw(st.booleans()):
            gone = draw(st.integers(0, len(rules) - 1))
            rules = [*rules[:gone], *rules[gone + 1 :]]
        calls = [line for line in lines if line.startswith("call ")]
        if calls and draw(st.booleans()) and draw(st.booleans()):
            call = draw(st.sampled_from(calls))
            lines = [line for line in lines if line != call]
    return [each for each in found if each is not None], " ->\n".join(texts)


@examples(60, suppress_health_check=SLOW, phases=(Phase.generate, Phase.shrink))
@given(drawn=plans(), data=st.data())
def test_every_request_meets_one_plan(drawn: tuple[list[Placed], str], data: st.DataObject) -> None:
    found, text = drawn
    assume(len(found) > 1)
    note(text)
    turns = st.sampled_from((None, None, *StepName))
    legs = [Leg(number, data.draw(turns), aborted=data.draw(st.booleans())) for number in range(1, len(found))]
    moving = any(Diff(*pair).moved for pair in pairwise(found))
    try:
        Judge(walk(found, legs)).judge()
    except EmitError as error:
        event(f"refused: {error.diagnostics[0].message.partition('`')[2].partition('`')[2][:40]}")
        return
    event(f"moves: {moving}")
