"""Policies change sides at several destinations in one rollout, under traffic; each destination shows other effects."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from admc.serve.rollout.model import StepName
from admc.serve.rollout.steps import steps
from admc.testbed.envoys import envoy_binary
from tests.serve.rollout.bed import KEY, Bed
from tests.serve.rollout.effects import SIDES, Called, Copied, Destination, Matched, Ordered, Renamed, Repeated, placed
from tests.testbed.callers import wait_for_answers, wait_for_workers

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.rollout.model import Placed, Step

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="needs Envoy")]

AMOUNT: Final = 10
"""Requests of each caller in each step."""
ID: Final = "x-echo-id"
SETTLE_SECONDS: Final = 0.2
"""Envoy's main thread sends the ACK, and its workers follow."""


class Destinations(NamedTuple):
    """All of them, by the class that checks each."""

    called: Called
    ordered: Ordered
    copied: Copied
    repeated: Repeated
    renamed: Renamed
    matched: Matched


def secrets_of(step: Step) -> dict[str, str]:
    """The marker's value for each destination."""
    return {
        each.hop.destination: step.overlays[service, each.hop.name].secret
        for service, parts in step.parts.items()
        for each in parts
        if (service, each.hop.name) in step.overlays
    }


def destinations(bed: Bed, direction: str, plans: tuple[Placed, Placed], stack: ExitStack) -> Destinations:
    secrets = secrets_of(steps(*plans, KEY)[StepName.SENDERS])
    assert secrets.keys() == {"called", "ordered", "copied", "repeated", "renamed", "matched"}
    others = secrets_of(steps(*plans, b"another key")[StepName.SENDERS])
    own = secrets["called"]
    forged = ("", "1", "0" * 64, others["called"], secrets["ordered"], own[:-1], own.upper(), f"{own}, {own}")
    return Destinations(
        Called(bed, direction, forged, stack.enter_context(ExitStack())),
        Ordered(bed, stack),
        Copied(bed, secrets["copied"], stack),
        Repeated(bed),
        Renamed(bed, direction),
        Matched(bed),
    )


def follow(bed: Bed, plans: tuple[Placed, Placed], found: Destinations, stack: ExitStack) -> None:
    """Take the rollout, with enough requests of each caller in each step."""
    every: tuple[Destination, ...] = found
    callers = [caller for each in every for caller in each.callers]
    for each in callers:
        stack.enter_context(each)
    wait_for_answers(callers, AMOUNT)
    found.ordered.ask_on_older()
    bed.take(steps(*plans, KEY)[StepName.PREPARE])
    time.sleep(SETTLE_SECONDS)
    found.ordered.ask_on_older()
    for step in bed.follow(*plans):
        wait_for_workers(callers)
        for destination in every:
            destination.at(step)
        wait_for_answers(callers, AMOUNT)


@pytest.mark.parametrize("direction", SIDES)
def test_each_destination_has_its_effects_in_each_step(tmp_path: Path, alone: None, direction: str) -> None:
    assert ENVOY is not None
    first, second = SIDES[direction]
    plans = placed(first, 0), placed(second, 1)
    with Bed(plans[0], tmp_path, ENVOY) as bed:
        with ExitStack() as stack:
            found = destinations(bed, direction, plans, stack)
            follow(bed, plans, found, stack)
        seen = bed.services.record.all()
    arrived = {name: [each for each in seen if each.service == name] for name in plans[0].program.services}
    found.called.check(arrived["called"])
    found.ordered.check(arrived["ordered"])
    found.copied.check([*arrived["copied"], *arrived["spare"]])
    found.repeated.check(arrived["repeated"])
    found.renamed.check(arrived["renamed"])
    found.matched.check(arrived["matched"])
    logs = {path.name: path.read_text(errors="replace") for path in (tmp_path / "logs").iterdir()}
    assert len(logs["copied.out"].splitlines()) == len(arrived["copied"])
    # Neither a log nor a request shows the marker's value, but those of callers that write it themselves.
    texts = [*logs.values(), *(str(each.headers) for each in seen if not found.copied.forging & set(each.header(ID)))]
    secrets = secrets_of(steps(*plans, KEY)[StepName.SENDERS]).values()
    assert not any(secret in text for text in texts for secret in secrets)
