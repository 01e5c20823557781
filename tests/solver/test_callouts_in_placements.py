"""The refusal of endless callouts is right: such a callout meets the policy in every placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsl.program import Place
from solver.place import place
from solver.placement import PlacementError
from solver.rules.facts import targets
from tests.dsl.programs import load
from tests.dsl.test_callout_loops import HEAD, REFUSED

if TYPE_CHECKING:
    from solver.placement import Placement


ASKING = [name for name, text in REFUSED.items() if "mirror" not in text and "split" not in text]
NARROWED = [(name, "@egress\n") for name in ASKING if "kind asks" not in REFUSED[name]]


@pytest.mark.parametrize(("name", "narrowing"), [*((name, "") for name in ASKING), *NARROWED])
def test_a_callout_meets_the_policy_in_every_placement(
    name: str, narrowing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the ingress of the called service can enforce it, since no egress handles a callout."""
    monkeypatch.setattr("dsl.resolve.resolver.check_callouts", lambda *_: None)
    program = load(HEAD + REFUSED[name].replace("policy p", f"{narrowing}policy p"))
    placement: Placement | None = None
    try:
        placement = place(program)
    except PlacementError:
        assert narrowing or name == "a set"  # a guard cannot know a service's calls to itself
    asked = {helper for policy in program.policies for helper in targets(policy)}
    for decision in placement.decisions if placement else ():
        if decision.destination in asked:
            assert decision.place == Place.INGRESS
