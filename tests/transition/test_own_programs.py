"""A plan that stands alone stands in its own program: whom only the other plan knows has no part in it any more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from admc.serve.rollout.stepping import told, where

from admc.serve.build.snapshots import snapshots
from admc.serve.build.source import Source, State
from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load_text
from emitters.addresses import from_json
from emitters.envoy import Mode
from solver.place import place
from xds_server.resources.types import LISTENER

HEAD = "app own\nservice s, d { http web 80  http admin 81 }\ncall s -> d:web, d:admin\n"
INNER = 'external x { cidr "10.1.0.0/16"  tcp 443 }\n'
OUTER = 'external y { cidr "10.0.0.0/8"  tcp 443 }\n'
QUOTA = "policy q = rate_limit(requests: {}, per: 1s) on s -> d:web\npin q at ingress\n"
CASES = {
    "a network inside of another, at ingress": (
        INNER + OUTER + "call x, y -> d:web\npolicy g = deny() on {x, y} -> d:web\n",
        OUTER + "call y -> d:web\npolicy g = deny() on y -> d:web\n",
    ),
    "a network inside of another, at egress": (
        INNER + OUTER + "call s -> x, y\npolicy g = deny() on s -> {x, y}\n",
        OUTER + "call s -> y\npolicy g = deny() on s -> y\n",
    ),
    "an outside party that gets another name": (
        OUTER + "call s -> y\ncall y -> d:web\npolicy g = deny() on s -> y\n",
        OUTER.replace("external y", "external z") + "call s -> z\ncall z -> d:web\npolicy g = deny() on s -> z\n",
    ),
    "an unknown party that gets another name": (
        "external a\ncall a -> d:web\npolicy g = deny() on a -> d:web\n",
        "external b\ncall b -> d:web\npolicy g = deny() on b -> d:web\n",
    ),
    "a service, beside a policy for all but one": (
        "service n { http 80 }\ncall n -> d:web\npolicy g = deny() on * except s -> d:web\n",
        "policy g = deny() on * except s -> d:web\n",
    ),
}
MOVES = {
    "nothing moves": ("", ""),
    "something moves": tuple(
        f"policy m = request_count() on s -> d:admin\npin m at {side}\n" for side in ("ingress", "egress")
    ),
}
LISTED = {
    "s": {"addresses": ["10.9.1.1"], "pods": ["10.8.0.1"]},
    "d": {"addresses": ["10.9.1.2"], "pods": ["10.8.0.2"]},
    "n": {"addresses": ["10.9.1.3"], "pods": ["10.8.0.3"]},
}


def state(text: str) -> State:
    program = load_text(HEAD + text)
    listed = {"services": {name: where for name, where in LISTED.items() if name in program.services}}
    addresses = from_json(json.dumps(listed).encode(), program)
    return State(Source(Path("policies.adm"), Mode.REDIRECT), program, place(program), addresses, "")


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("case", CASES)
def test_in_the_end_proxies_have_what_the_plan_alone_makes(case: str, moves: str, back: bool) -> None:
    ends = [
        state(text + moving + QUOTA.format(number))
        for text, moving, number in zip(CASES[case], MOVES[moves], (5, 6), strict=True)
    ]
    old, new = reversed(ends) if back else ends
    walked = steps(Placed(old.program, old.placement), Placed(new.program, new.placement), b"key")
    assert [step.phase for step in walked] == (list(Phase)[5:] if moves == "nothing moves" else list(Phase))
    alone = snapshots(new).by_service
    for step in walked[-2:]:
        made = told(step, where(step, old, new), frozenset(step.parts))
        assert "d" in made
        for service, snapshot in made.items():
            listeners = [
                {name: each.body for name, each in one.of_type(LISTENER).resources.items()}
                for one in (snapshot, alone[service])
            ]
            assert listeners[0] == listeners[1], (step.phase, service)
            if step is walked[-1]:
                assert snapshot.version == alone[service].version, service
