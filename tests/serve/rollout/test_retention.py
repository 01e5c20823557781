"""What older connections need is kept for as long as a proxy subscribes to it, and guards go on changing there."""

from __future__ import annotations

import pytest
from envoy.config.core.v3 import extension_pb2

from admc.serve.compiling.snapshots import snapshot
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.resources import Emitted
from admc.serve.rollout.retention import recognised, retained, steady_guards
from admc.serve.rollout.steps import steps
from dsl import load_text
from emitters.addresses import loopback
from emitters.envoy import Mode, emit
from solver.place import place
from xds_server.resources.references import Reference
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES

APP = """
app kept
service s, t { http 80 }
service d { http 80 }
call s, t -> d
"""
GUARD = "policy who = allow(callers: [CALLERS]) on {s, t} -> d\npin who at SIDE\n"
HEADER = 'policy mark = set_request_header(name: "x-a", value: "1") on {s, t} -> d\npin mark at SIDE\n'
BREAKER = "policy breaker = circuit_breaking(max_requests: 5) on {s, t} -> d\n"


def placed(text: str, side: str = "ingress", callers: str = "s, t") -> Placed:
    program = load_text(APP + text.replace("SIDE", side).replace("CALLERS", callers))
    return Placed(program, place(program))


def snapshots(plan: Placed) -> dict[str, Snapshot]:
    made = emit(*plan, loopback(plan.program), Mode.EXPLICIT, by_chain=True)
    return {each.service: snapshot(each) for each in made}


def names(snapshot: Snapshot, type_url: str) -> set[str]:
    return {name for name in snapshot.of_type(type_url).resources if name != "trial"}


def subscriptions(snapshot: Snapshot) -> frozenset[Reference]:
    return frozenset(Reference(each, name) for each in (ROUTES, EXTENSION) for name in names(snapshot, each))


OLD = placed(GUARD + HEADER + BREAKER)
NEW = placed(GUARD, callers="s")


def test_all_is_kept_that_a_proxy_subscribes_to() -> None:
    old, new = snapshots(OLD), snapshots(NEW)
    for subscribed in ({"d": subscriptions(old["d"])}, {}):
        found = retained(old, new, subscribed)["d"]
        found.check()
        for each in (ROUTES, EXTENSION, CLUSTER, ENDPOINTS):
            assert names(found, each) == names(old["d"], each) | names(new["d"], each)
        assert names(found, LISTENER) == names(new["d"], LISTENER)


def test_nothing_is_kept_that_no_proxy_subscribes_to() -> None:
    old, new = snapshots(OLD), snapshots(NEW)
    found = retained(old, new, {"d": frozenset()})["d"]
    assert found.version == new["d"].version
    assert retained({}, new, {})["d"] is new["d"]


def test_what_is_kept_stays_kept_and_then_goes() -> None:
    old, new = snapshots(OLD), snapshots(NEW)
    first = retained(old, new, {})
    again = retained(first, new, {"d": subscriptions(old["d"])})
    assert again["d"].version == first["d"].version
    table = next(iter(names(old["d"], ROUTES)))
    one = retained(first, new, {"d": frozenset((Reference(ROUTES, table),))})["d"]
    one.check()
    assert names(one, ROUTES) == {table, *names(new["d"], ROUTES)}
    assert names(one, EXTENSION) == names(new["d"], EXTENSION)


def admitted(found: Snapshot, names_: set[str]) -> dict[str, bytes]:
    """The configurations of the guard, without their names."""
    return {
        name: each.body.replace(name.encode(), b"")
        for name, each in found.of_type(EXTENSION).resources.items()
        if "/who:" in name and name in names_
    }


def test_a_guard_that_stays_changes_for_older_connections_too() -> None:
    old, new = snapshots(OLD), snapshots(NEW)
    guards = steady_guards(OLD, NEW)
    assert {(each.service, each.hop) for each in guards} == {("d", "ingress/80")}
    found = retained(old, new, {}, guards)["d"]
    older = admitted(found, names(old["d"], EXTENSION))
    now = admitted(found, names(new["d"], EXTENSION))
    assert len(older) == len(now) == 1
    assert older.keys() != now.keys()
    assert list(older.values()) == list(now.values())
    assert admitted(old["d"], names(old["d"], EXTENSION)) != older


@pytest.mark.parametrize("other", ["egress", 'on {s, t} -> d when path == "/p"'])
def test_a_guard_that_moves_or_is_about_other_requests_does_not(other: str) -> None:
    if other == "egress":
        after = placed(GUARD, "egress", "s")
    else:
        after = placed(GUARD.replace("on {s, t} -> d", other), callers="s")
    assert not steady_guards(OLD, after)


WHEN = GUARD.replace("-> d\n", '-> d when path == "/PATH"\n')


def test_a_guard_of_the_same_name_does_not_take_the_place_of_an_older_one() -> None:
    """The second plan has another guard of that name. The third one has it, too, with other arguments."""
    plans = [placed(WHEN.replace("PATH", "p") + HEADER)]
    plans += [placed(WHEN.replace("PATH", "q"), callers=callers) for callers in ("s, t", "s")]
    assert not steady_guards(*plans[:2])
    first, second, third = (snapshots(plan) for plan in plans)
    own = names(first["d"], EXTENSION)
    published = retained(first, second, {}, steady_guards(*plans[:2]))
    again = retained(published, second, {}, steady_guards(plans[1], plans[1]))
    last = retained(again, third, {}, steady_guards(*plans[1:]))
    for found in (published, again, last):
        assert admitted(found["d"], own) == admitted(first["d"], own)


def test_a_guard_that_stays_through_several_plans_changes_for_all_older_connections() -> None:
    """Also where proxies reject the second plan: then older connections have the guard as the first plan has it."""
    plans = [placed(GUARD + HEADER), placed(GUARD, callers="s"), placed(GUARD + BREAKER, callers="t")]
    first, second, third = (snapshots(plan) for plan in plans)
    published = retained(first, second, {}, steady_guards(*plans[:2]))
    of_first, of_second = (each["d"].of_type(EXTENSION).resources for each in (first, published))
    others = [
        each for key, own in published["d"].collections.items() if key != EXTENSION for each in own.resources.values()
    ]
    rejected = Snapshot.of([*others, *{**of_second, **of_first}.values()])
    for before in (published["d"], rejected):
        last = retained({"d": before}, third, {}, steady_guards(*plans[1:]), published)["d"]
        own, now = (admitted(last, names(each["d"], EXTENSION)) for each in (first, third))
        assert own.keys() != now.keys()
        assert list(own.values()) == list(now.values())


def test_other_policies_stay_as_they_are_for_older_connections() -> None:
    after = placed(GUARD + HEADER.replace('"1"', '"2"'), callers="s")
    assert {each.filter for each in steady_guards(OLD, after)} == {"/who:allow"}
    old, new = snapshots(OLD), snapshots(after)
    found = retained(old, new, {}, steady_guards(OLD, after))["d"]
    assert names(found, LISTENER) == names(new["d"], LISTENER)
    assert all(
        each.body == old["d"].of_type(ROUTES).resources[name].body
        for name, each in found.of_type(ROUTES).resources.items()
        if name in names(old["d"], ROUTES)
    )


def test_a_guard_that_stays_has_its_new_arguments_in_prepare() -> None:
    """What else moves at its destination does not hold up a revocation."""
    move = 'policy mark = set_request_header(name: "x-a", value: "1") on {s, t} -> d\npin mark at egress\n'
    after = placed(GUARD + move + BREAKER, callers="s")
    step = steps(OLD, after, b"key")[StepName.PREPARE]
    made = Emitted(step, loopback(after.program), Mode.EXPLICIT).at(step)["d"]
    found = snapshot(made)
    both = admitted(found, names(found, EXTENSION))
    assert len(both) == 2
    assert len(set(both.values())) == 1
    assert set(both.values()) == set(admitted(snapshots(after)["d"], names(found, EXTENSION)).values())


def under(name: str, extension: Resource) -> Resource:
    """A filter configuration under another name."""
    config = extension_pb2.TypedExtensionConfig.FromString(extension.body)
    config.name = name
    return Resource.of(config)


def of_policy(snapshot: Snapshot, policy: str) -> Resource:
    (found,) = (item for name, item in snapshot.of_type(EXTENSION).resources.items() if f"/{policy}:" in name)
    return found


def test_a_guard_in_a_chain_of_an_earlier_release_is_known_by_its_version_and_follows() -> None:
    old, new = snapshots(OLD)["d"], snapshots(NEW)["d"]
    guards = steady_guards(OLD, NEW)
    name = "ingress/80@00000000/who:allow"
    version = under(name, of_policy(old, "who")).version
    known = recognised("d", old, {name: frozenset({version})}, guards)
    assert known == {Reference(EXTENSION, name)}
    found = retained({"d": old}, {"d": new}, {"d": frozenset()}, guards, known={"d": known})["d"]
    assert found.of_type(EXTENSION).resources[name].version == under(name, of_policy(new, "who")).version
    assert names(found, ROUTES) == names(new, ROUTES)


def test_what_differs_from_the_guard_of_the_plan_is_not_known() -> None:
    old = snapshots(OLD)["d"]
    guards = steady_guards(OLD, NEW)
    name, mark = "ingress/80@00000000/who:allow", "ingress/80@00000000/mark:set_request_header"
    version = under(name, of_policy(old, "who")).version
    for versions in ({"another"}, {version, "another"}, {of_policy(old, "who").version}):
        assert recognised("d", old, {name: frozenset(versions)}, guards) == frozenset()
    assert recognised("d", old, {name: frozenset({version})}, frozenset()) == frozenset(), "the guard has changed"
    no_guard = frozenset({under(mark, of_policy(old, "mark")).version})
    assert recognised("d", old, {mark: no_guard}, guards) == frozenset()
