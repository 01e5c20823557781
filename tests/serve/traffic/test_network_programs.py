"""Which variants a server rolls out one after the other, by its own steps."""

from __future__ import annotations

from itertools import product

from admc.serve.rollout.diff import Diff
from admc.serve.rollout.model import Placed
from admc.serve.rollout.network import closings
from admc.serve.rollout.steps import steps
from dsl import load_text
from emitters.errors import EmitError
from solver.place import place
from tests.serve.traffic.network_programs import PLACES, NetworkVariant, may_follow
from tests.serve.traffic.pod_bed import PORT, text
from tests.serve.traffic.programs import EGRESS, INGRESS


def placed(variant: NetworkVariant) -> Placed:
    program = load_text(text(variant, variant.more(PORT)))
    return Placed(program, place(program))


def is_safe(old: Placed, new: Placed) -> bool:
    """Whether there are steps, and no caller is refused in the network while nothing moves."""
    try:
        steps(old, new, b"key")
    except EmitError:
        return False
    return bool(Diff(old, new).moving) or not closings(old, new)


def test_each_variant_has_a_plan_and_may_follow_what_it_is_said_to_follow() -> None:
    variants = [
        NetworkVariant(cart=cart, gate=gate, till=till)
        for cart, gate, till in product((INGRESS, EGRESS), PLACES, (True, False))
    ]
    plans = {variant: placed(variant) for variant in variants}
    wrong = [
        (old, new)
        for old, new in product(variants, repeat=2)
        if may_follow(old, new) != is_safe(plans[old], plans[new])
    ]
    assert wrong == []
