"""A walk goes on when proxies have acknowledged, and never because time has passed."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from admc.transition.driver import MARGIN_SECONDS, OLDER, SETTLE_SECONDS, TAKING_OVER, Sight, Walk
from admc.transition.model import Phase
from admc.transition.steps import steps
from tests.transition.move import KEY, placed

DRAIN = 60.0


class Node(NamedTuple):
    id: str


class Proxy(NamedTuple):
    group: str
    acknowledged: str
    node: Node = Node("0")
    refuses: bool = False
    fresh: bool = False


def walk() -> Walk:
    return Walk(steps(placed("ingress"), placed("egress"), KEY))


def at(phase: Phase) -> Walk:
    found = walk()
    return Walk(found.steps, next(index for index, step in enumerate(found.steps) if step.phase is phase))


def sight(now: float, *, without: str = "", behind: str = "", replicas: int = 1) -> Sight:
    names = ("cart", "shop", "till")
    proxies = tuple(Proxy(name, "old" if name == behind else "new") for name in names if name != without)
    return Sight(now, proxies, dict.fromkeys(names, "new"), dict.fromkeys(names, replicas))


def test_a_step_lasts_until_all_have_acknowledged_and_taken_over() -> None:
    first, waits = walk().look(sight(0.0, behind="till"), DRAIN)
    assert (first.index, waits) == (0, ("`till`: 1 of 1 proxies have not acknowledged",))
    later, _ = first.look(sight(1e6, behind="till"), DRAIN)
    assert later.index == 0
    seen, _ = later.look(sight(1e6), DRAIN)
    assert seen.index == 0
    gone, waits = seen.look(sight(1e6 + SETTLE_SECONDS), DRAIN)
    assert (gone.step.phase, waits) == (Phase.PREPARE, ())


def test_a_service_without_its_proxies_is_waited_for() -> None:
    same, waits = walk().look(sight(1e9, without="cart"), DRAIN)
    assert (same.index, waits) == (0, ("`cart`: 0 of 1 proxies are connected",))
    same, waits = walk().look(sight(1e9, replicas=2), DRAIN)
    assert same.index == 0
    assert "`shop`: 1 of 2 proxies are connected" in waits


def test_who_has_nothing_any_more_is_told_and_waited_for_as_long_as_it_is_there() -> None:
    found = at(Phase.FINAL)
    leaving = replace(found.step, awaits=("shop", "till"), leaves=("cart",))
    final = replace(found, steps=(leaving, found.steps[-1]), index=0)
    _, waits = final.look(sight(0.0, behind="cart"), DRAIN)
    assert waits == ("`cart`: 1 of 1 proxies have not acknowledged",)
    gone, waits = final.look(sight(0.0, without="cart"), DRAIN)
    assert waits == (TAKING_OVER,)
    # One that comes back later may have older connections, too.
    back, _ = gone.look(sight(50.0), DRAIN)
    early, waits = back.look(sight(DRAIN + MARGIN_SECONDS), DRAIN)
    assert (early.step.phase, waits) == (Phase.FINAL, (OLDER,))


def test_who_was_never_told_anything_is_not_waited_for() -> None:
    found = at(Phase.ANNOUNCE)
    first = replace(found, steps=(replace(found.step, awaits=("cart",), leaves=("shop", "till")), *found.steps[1:]))
    told = sight(0.0)._replace(wanted={"cart": "new"})
    assert first.look(told, DRAIN)[1] == (TAKING_OVER,)


def test_senders_take_over_once_no_older_connection_is_left() -> None:
    prepared, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    early, waits = prepared.look(sight(DRAIN + MARGIN_SECONDS - 0.1), DRAIN)
    assert early.step.phase is Phase.PREPARE
    assert waits
    assert early.look(sight(DRAIN + MARGIN_SECONDS), DRAIN)[0].step.phase is Phase.SENDERS


def test_a_proxy_that_falls_behind_begins_the_wait_anew() -> None:
    prepared, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    behind, _ = prepared.look(sight(10.0, behind="shop"), DRAIN)
    back, _ = behind.look(sight(20.0), DRAIN)
    assert back.look(sight(DRAIN + MARGIN_SECONDS + 1), DRAIN)[0].step.phase is Phase.PREPARE


def test_what_was_let_go_of_is_taken_back_before_another_plan() -> None:
    for phase in (Phase.PREPARE, Phase.SENDERS, Phase.RECEIVERS, Phase.RELEASE):
        going = at(phase).undone()
        now = 0.0
        seen = []
        waits: tuple[str, ...] = ("the first look",)
        while waits or not going.over or going.since is None:
            assert now < 3 * DRAIN
            seen.append(going.step.phase)
            going, waits = going.look(sight(now), DRAIN)
            now += SETTLE_SECONDS
        assert going.at_old
        # What was made while the old side did not hold is gone before the new one lets go, and then what is new is.
        drains = 2 if phase in (Phase.RECEIVERS, Phase.RELEASE) else 1
        assert drains * DRAIN < now < drains * DRAIN + 20
        assert list(dict.fromkeys(seen)) == [each for each in Phase if each in seen][::-1]
    for phase in (Phase.ANNOUNCE, Phase.FINAL, Phase.CLEAN):
        found = at(phase)
        assert found.undone() is found
        # Where older connections are left another plan would take from them what they need.
        assert found.may_end is (phase is not Phase.FINAL)


def test_who_is_away_holds_up_the_way_back_only_where_it_could_be_a_gap() -> None:
    for phase, held in ((Phase.SENDERS, None), (Phase.RECEIVERS, Phase.SENDERS), (Phase.RELEASE, Phase.RECEIVERS)):
        going = at(phase).undone()
        for now in range(0, 1000, 10):
            going, _ = going.look(sight(float(now), without="cart"), DRAIN)
        assert going.step.phase is (held or Phase.ANNOUNCE)


def test_who_refuses_a_step_does_not_hold_up_the_way_back() -> None:
    """All have the step before, or this one; and with that one published nobody will ever have anything else."""
    for phase in (Phase.PREPARE, Phase.SENDERS, Phase.RECEIVERS, Phase.RELEASE):
        turned = at(phase).undone()
        going, waits = turned.look(sight(0.0, behind="cart"), DRAIN)
        assert not waits
        assert going.index == turned.index - 1 == turned.kept
        assert going.kept == going.index
        # The next one back is waited for as ever.
        further, waits = going.look(sight(1.0, behind="cart"), DRAIN)
        assert further.index == going.index
        assert waits == ("`cart`: 1 of 1 proxies have not acknowledged",)


def test_interception_is_waited_for() -> None:
    found = at(Phase.PREPARE)
    step = found.step
    asked = Walk((replace(step, rests={"shop": frozenset(("egress/cart:80 at 80",))}),))
    _, waits = asked.look(sight(0.0)._replace(intercepted=frozenset()), DRAIN)
    assert waits == ("`shop`: its interception",)


def test_a_proxy_that_comes_back_does_not_begin_the_wait_anew() -> None:
    prepared, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    away, waits = prepared.look(sight(10.0, without="shop"), DRAIN)
    assert waits == ("`shop`: 0 of 1 proxies are connected",)
    coming = sight(20.0)
    coming = coming._replace(clients=(*coming.clients[:1], Proxy("shop", ""), *coming.clients[2:]))
    assert away.look(coming, DRAIN)[1] == ("`shop`: 1 of 1 proxies have not acknowledged",)
    back, waits = away.look(coming, DRAIN)[0].look(sight(DRAIN + MARGIN_SECONDS), DRAIN)
    assert (back.step.phase, waits) == (Phase.PREPARE, (TAKING_OVER,))
    later, _ = back.look(sight(DRAIN + MARGIN_SECONDS + SETTLE_SECONDS), DRAIN)
    assert later.step.phase is Phase.SENDERS


def test_another_proxy_may_have_older_connections() -> None:
    prepared, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    now = sight(50.0)
    other = now._replace(clients=(*now.clients, Proxy("shop", "new", Node("1"))))
    joined, _ = prepared.look(other, DRAIN)
    early, waits = joined.look(other._replace(now=DRAIN + MARGIN_SECONDS + 1), DRAIN)
    assert (early.step.phase, waits) == (Phase.PREPARE, (OLDER,))
    assert early.look(other._replace(now=50 + DRAIN + MARGIN_SECONDS), DRAIN)[0].step.phase is Phase.SENDERS


def test_other_addresses_for_the_same_step_begin_no_wait_anew() -> None:
    """Whoever has the step with the addresses of before makes no connection that is older than it."""
    prepared, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    walk = prepared
    for now in range(5, 60, 5):
        moved = sight(float(now), behind="shop")._replace(same={"shop": frozenset(("old", "new"))})
        walk, waits = walk.look(moved, DRAIN)
        assert (walk.since, waits) == (0.0, ("`shop`: 1 of 1 proxies have not acknowledged",))
        # All have to acknowledge them before the next step.
        walk, waits = walk.look(sight(now + 0.5), DRAIN)
        assert (walk.since, waits) == (0.0, (TAKING_OVER,))
    walk, waits = walk.look(sight(DRAIN + MARGIN_SECONDS), DRAIN)
    assert (walk.step.phase, waits) == (Phase.SENDERS, ())
    # Another service's versions, and those of another time, are no excuse.
    for same in ({"cart": frozenset(("old",))}, {"shop": frozenset(("other",))}):
        moved = sight(10.0, behind="shop")._replace(same=same)
        assert prepared.look(moved, DRAIN)[0].since is None


def test_rules_for_other_addresses_are_waited_for_and_begin_no_wait_anew() -> None:
    found = at(Phase.PREPARE)
    rests = replace(found.step, rests={"shop": frozenset(("egress/cart:80 at 80",))})
    asked = Walk((*found.steps[: found.index], rests, *found.steps[found.index + 1 :]), found.index)
    loaded, missing = frozenset(("shop",)), frozenset[str]()
    walk, _ = asked.look(sight(0.0)._replace(intercepted=missing), DRAIN)
    assert walk.since is None
    walk, _ = walk.look(sight(10.0)._replace(intercepted=loaded), DRAIN)
    assert walk.since == 10.0
    for now in (20.0, 10.0 + DRAIN + MARGIN_SECONDS):
        walk, waits = walk.look(sight(now)._replace(intercepted=missing), DRAIN)
        assert (walk.since, waits) == (10.0, ("`shop`: its interception",))
    # NetworkPolicies refuse nothing that is open.
    opened = walk.steps[walk.index]
    gone = replace(walk, steps=(replace(opened, closes=("cart",)), *walk.steps[1:]), index=0)
    assert gone.look(sight(30.0)._replace(intercepted=loaded, closed=frozenset()), DRAIN)[0].since is None
    last = sight(11.0 + DRAIN + MARGIN_SECONDS)._replace(intercepted=loaded)
    walk, waits = walk.look(last, DRAIN)
    assert (walk.step.phase, waits) == (Phase.PREPARE, (TAKING_OVER,))
    walk, waits = walk.look(last._replace(now=last.now + SETTLE_SECONDS), DRAIN)
    assert (walk.step.phase, waits) == (Phase.SENDERS, ())


def _joined(now: float, *others: Proxy) -> Sight:
    seen = sight(now)
    return seen._replace(clients=(*seen.clients, *others))


def test_a_proxy_that_has_just_been_started_begins_no_wait_anew() -> None:
    walk, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    for number in range(1, 12):
        now = 5.0 * number
        new = Proxy("shop", "new", Node(str(number)), fresh=True)
        walk, waits = walk.look(_joined(now, new._replace(acknowledged="")), DRAIN)
        assert waits == ("`shop`: 1 of 2 proxies have not acknowledged",)
        walk, waits = walk.look(_joined(now + 1, new), DRAIN)
        assert (walk.since, waits) == (0.0, (TAKING_OVER,))
        # Its stream ends, and it comes back with what it has.
        walk, waits = walk.look(_joined(now + 2, new._replace(fresh=False)), DRAIN)
        assert (walk.since, waits) == (0.0, (OLDER,))
    # Its workers have to take over as all others' have.
    last = Proxy("shop", "new", Node("last"), fresh=True)
    walk, waits = walk.look(_joined(DRAIN + MARGIN_SECONDS, last), DRAIN)
    assert (walk.step.phase, waits) == (Phase.PREPARE, (TAKING_OVER,))
    walk, waits = walk.look(_joined(DRAIN + MARGIN_SECONDS + SETTLE_SECONDS, last), DRAIN)
    assert (walk.step.phase, waits) == (Phase.SENDERS, ())


def test_a_proxy_that_comes_with_something_begins_the_wait_anew_whoever_came_before() -> None:
    walk, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    walk, _ = walk.look(_joined(10.0, Proxy("shop", "new", Node("1"), fresh=True)), DRAIN)
    both = (Proxy("shop", "new", Node("1"), fresh=True), Proxy("shop", "new", Node("2")))
    walk, waits = walk.look(_joined(20.0, *both), DRAIN)
    assert (walk.since, waits) == (20.0, (TAKING_OVER,))
    # One of whose streams one has begun with something has had it, whatever the other says.
    walk, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    twice = (Proxy("shop", "new", Node("3"), fresh=True), Proxy("shop", "new", Node("3")))
    assert walk.look(_joined(30.0, *twice), DRAIN)[0].since == 30.0


def test_a_proxy_that_was_started_with_something_from_before_the_step_begins_the_wait_anew() -> None:
    """As when what is published was refused, and whoever comes has the last good one."""
    walk, _ = at(Phase.PREPARE).look(sight(0.0), DRAIN)
    new = Proxy("shop", "before", Node("1"), fresh=True)
    walk, _ = walk.look(_joined(10.0, new), DRAIN)
    assert walk.since is None
    walk, _ = walk.look(_joined(20.0, new._replace(acknowledged="new")), DRAIN)
    assert walk.since == 20.0


def test_a_proxy_with_two_streams_is_one() -> None:
    seen = sight(0.0, replicas=2)
    twice = seen._replace(clients=(*seen.clients, *seen.clients))
    assert "`shop`: 1 of 2 proxies are connected" in walk().look(twice, DRAIN)[1]
    others = tuple(Proxy(each.group, "new", Node("1")) for each in seen.clients)
    both = seen._replace(clients=(*seen.clients, *others))
    assert walk().look(both, DRAIN)[1] == (TAKING_OVER,)
