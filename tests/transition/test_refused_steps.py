"""Who refuses a step is named, and where the way back is refused a newer plan goes forward again."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from admc.transition.driver import MARGIN_SECONDS, SETTLE_SECONDS, Sight, Walk
from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load_text
from solver.place import place

DRAIN = 60.0
PROGRAM = """
app refused
service shop { http 80 }
service cart { http 80 }
call shop -> cart
policy once = add_request_header(name: "x-once", value: "1") on shop -> cart
pin once at SIDE
"""


class Node(NamedTuple):
    id: str


class Proxy(NamedTuple):
    group: str
    acknowledged: str
    node: Node
    refuses: bool = False
    fresh: bool = False


def placed(side: str) -> Placed:
    program = load_text(PROGRAM.replace("SIDE", side))
    return Placed(program, place(program))


def at(phase: Phase) -> Walk:
    made = steps(placed("ingress"), placed("egress"), b"key")
    return Walk(made, next(index for index, step in enumerate(made) if step.phase is phase))


def sight(now: float, *, refusing: int = 0, behind: int = 0) -> Sight:
    """`cart` has one proxy. Of two of `shop`, so many refuse what is published, and more do not have it."""
    have = ("old" if number < refusing + behind else "new" for number in range(2))
    shops = [Proxy("shop", version, Node(str(number)), number < refusing) for number, version in enumerate(have)]
    replicas = {"shop": 2, "cart": 1}
    return Sight(now, (Proxy("cart", "new", Node("0")), *shops), dict.fromkeys(replicas, "new"), replicas)


def waits(walk: Walk, sight: Sight) -> tuple[str, ...]:
    return walk.look(sight, DRAIN)[1]


def test_a_wait_says_that_proxies_refused_and_what_mends_it() -> None:
    walk = at(Phase.SENDERS)
    assert waits(walk, sight(0.0, behind=2)) == ("`shop`: 2 of 2 proxies have not acknowledged",)
    assert waits(walk, sight(0.0, refusing=2)) == ("`shop`: 2 of 2 proxies refused it (a newer plan mends that)",)
    assert waits(walk, sight(0.0, refusing=1, behind=1)) == (
        "`shop`: 1 of 2 proxies refused it (a newer plan mends that)",
    )
    # Whoever has refused it has been replaced, and the new one was not sent it.
    gone = sight(0.0, behind=1)._replace(refused=frozenset(("shop",)))
    assert waits(walk, gone) == (
        "`shop`: 1 of 2 proxies do not have it, since it was refused (a newer plan mends that)",
    )


def test_a_proxy_that_refuses_is_named_though_others_are_away() -> None:
    seen = sight(0.0, refusing=1)
    alone = seen._replace(clients=seen.clients[:2])
    assert waits(at(Phase.SENDERS), alone) == ("`shop`: 1 of 1 proxies refused it (a newer plan mends that)",)


def test_who_refused_something_else_before_is_no_obstacle() -> None:
    seen = sight(0.0)
    earlier = seen._replace(clients=tuple(each._replace(refuses=True) for each in seen.clients))  # type: ignore[attr-defined]
    going, _ = at(Phase.SENDERS).look(earlier, DRAIN)
    assert going.look(earlier._replace(now=SETTLE_SECONDS), DRAIN)[0].step.phase is Phase.RECEIVERS


def test_only_a_way_back_that_is_refused_is_blocked() -> None:
    refused, behind = sight(0.0, refusing=1), sight(0.0, behind=1)
    forward = at(Phase.RECEIVERS)
    assert not forward.blocked(refused)
    turned = forward.undone()
    assert not turned.blocked(refused)  # what is refused there is what it turned for
    back, _ = turned.look(refused, DRAIN)
    assert back.step.phase is Phase.SENDERS
    assert not back.blocked(behind)
    assert not back.blocked(sight(0.0))
    assert back.blocked(refused)
    assert back.blocked(behind._replace(refused=frozenset(("shop",))))


def test_forward_again_from_every_step_waits_as_ever() -> None:
    for phase in (Phase.ANNOUNCE, Phase.PREPARE, Phase.SENDERS, Phase.RECEIVERS):
        back = replace(at(phase), back=True, since=0.0, settled=0.0, reached=list(Phase).index(Phase.RELEASE))
        walk, now, seen = back.redone(), 0.0, []
        assert not walk.back
        while walk.step.phase is not Phase.CLEAN:
            assert walk.look(sight(now, behind=1), DRAIN)[0].index == walk.index
            seen.append(walk.step.phase)
            walk, _ = walk.look(sight(now), DRAIN)
            now += SETTLE_SECONDS
        order = list(Phase)
        assert list(dict.fromkeys(seen)) == order[order.index(phase) + 1 : -1]
        drains = 2 if phase is Phase.ANNOUNCE else 1
        assert drains * (DRAIN + MARGIN_SECONDS) <= now < drains * (DRAIN + MARGIN_SECONDS) + 20


def test_the_way_back_from_final_waits_for_connections_that_were_made_there() -> None:
    """They lack what left: where the receiver enforces unless a request is marked, nothing would mark theirs."""
    walk, now = at(Phase.FINAL).taken_back(), 0.0
    assert not walk.may_end
    walk, waits = walk.look(sight(now, refusing=1), DRAIN)
    assert (walk.step.phase, waits) == (Phase.RELEASE, ())
    while walk.step.phase is Phase.RELEASE:
        walk, _ = walk.look(sight(now), DRAIN)
        now += SETTLE_SECONDS
    assert DRAIN + MARGIN_SECONDS <= now < DRAIN + MARGIN_SECONDS + 20
    while not (walk.at_old and walk.since is not None and walk.look(sight(now), DRAIN) == (walk, ())):
        walk, _ = walk.look(sight(now), DRAIN)
        now += SETTLE_SECONDS
    assert 3 * (DRAIN + MARGIN_SECONDS) <= now < 3 * (DRAIN + MARGIN_SECONDS) + 40
    # A server that comes back knows nothing of what proxies may have had.
    again = at(Phase.RELEASE)
    again = replace(again, back=True, reached=len(again.steps) - 1)
    for now in range(int(DRAIN)):
        again, _ = again.look(sight(float(now)), DRAIN)
        assert again.step.phase is Phase.RELEASE


def test_what_a_transition_begins_with_is_mended_by_a_plan_that_moves_nothing() -> None:
    (said,) = waits(at(Phase.ANNOUNCE), sight(0.0, refusing=1))
    assert said == "`shop`: 1 of 2 proxies refused it (a newer plan that moves nothing mends that)"
