"""What a split sends on, and what a mirror copies, meets nothing of its sender's filters for that destination: it comes
when the receiver enforces by itself, and goes before the receiver lets go."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from admc.transition.model import Placed
from admc.transition.steps import steps
from dsl import load_text
from dsl.program import Side
from emitters.hops import hops
from solver.place import place

if TYPE_CHECKING:
    from admc.transition.model import Step

PROGRAM = """
app shares
service s { http 80 }
service d { http 80 }
service e { http 80 }
call s -> d
call s -> e
"""
SHARES = ("split(to: e, percent: 50%)", "mirror(to: e)")
MOVES = "policy m = request_count() on s -> e\npin m at SIDE\n"
ALSO = "policy q = request_count() on s -> d\npin q at SIDE\n"


def placed(side: str, share: str, also: str) -> Placed:
    text = PROGRAM + MOVES.replace("SIDE", side) + (f"policy p = {share} on s -> d\n" if share else "")
    program = load_text(text + (ALSO.replace("SIDE", also) if also else ""))
    return Placed(program, place(program))


def shares(step: Step) -> bool:
    part = step.parts.get("s")
    found = () if part is None else hops(*part.placed).get("s", ())
    return any(policy.name == "p" for hop in found for policy in hop.policies)


def enforces(step: Step) -> bool:
    """Whether the receiver enforces `m` on requests without a marker."""
    part = step.parts.get("e")
    found = () if part is None else hops(*part.placed).get("e", ())
    return any(
        policy.name == "m" and (hop.name not in part.toggles or "m" not in part.toggles[hop.name].off)
        for hop in found
        if part is not None and hop.side is Side.INGRESS
        for policy in hop.policies
    )


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("also", [("", ""), ("ingress", "egress")])
@pytest.mark.parametrize("back", [False, True])
def test_shares_are_sent_to_a_receiver_that_enforces(share: str, also: tuple[str, str], back: bool) -> None:
    """`also`: something changes sides at the call's own destination, too."""
    ends = placed("ingress", share, also[0]), placed("egress", "", also[1])
    old, new = reversed(ends) if back else ends
    walked = steps(old, new, b"key")
    assert sum(map(shares, walked)) >= 2
    for before, after in pairwise(walked):
        # Proxies hear of a step in any order.
        assert not (shares(before) or shares(after)) or (enforces(before) and enforces(after)), after.phase


@pytest.mark.parametrize("back", [False, True])
def test_a_share_that_goes_elsewhere_is_not_sent_to_who_does_not_enforce_yet(back: bool) -> None:
    app = PROGRAM.replace("service e", "service e, f").replace("call s -> e", "call s -> e, f")
    ends = []
    for side, target in (("ingress", "e"), ("egress", "f")):
        program = load_text(
            app + MOVES.replace("SIDE", side) + f"policy p = split(to: {target}, percent: 5%) on s -> d\n"
        )
        ends.append(Placed(program, place(program)))
    old, new = reversed(ends) if back else ends
    walked = steps(old, new, b"key")

    def to_e(step: Step) -> bool:
        part = step.parts.get("s")
        return part is not None and any(
            policy.name.startswith("p") and policy.arguments["to"] == "e"
            for hop in hops(*part.placed).get("s", ())
            for policy in hop.policies
        )

    assert any(map(to_e, walked))
    for before, after in pairwise(walked):
        assert not (to_e(before) or to_e(after)) or (enforces(before) and enforces(after)), after.phase
