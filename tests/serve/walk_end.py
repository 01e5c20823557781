"""The end of a random walk: nothing goes wrong any more, and the newest plan comes into force."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from tests.serve.walk_plans import REPLICAS, THIRD

if TYPE_CHECKING:
    from tests.serve.random_walk import World


def come_to_rest(world: World) -> None:
    """Nothing goes wrong any more: the newest plan comes into force, and nothing else is left."""
    world.disk.full, world.disk.fuse = "", None
    for proxy in world.proxies:
        proxy.refusal = None
        proxy.refused.clear()
    others = cycle((0, 1, len(THIRD) - 1))
    for number in range(300):
        if world.server is None:
            world.start()
        world.compile()
        world.command("continue")
        world.all_advance()
        for service in (*REPLICAS, "extra"):
            world.read_rules(service)
            world.load_rules(service)
        world.judge()
        world.tick((0.5, 1.1, 1.1, 7.0)[number % 4])
        world.judge()
        world.save()
        if _is_over(world):
            break
        if number == 40:
            world.kill()  # a refused resource is not sent again on its stream
        if number in (80, 160):
            for proxy in world.proxies:
                proxy.restart()
        if number % 100 == 99:
            world.wanted = world.wanted._replace(third=next(others))
        _make_two_plans(world)
    _check_end(world)


def _make_two_plans(world: World) -> None:
    """Do what the server says where policies move both ways: the plan that it goes back to after an abort may be
    one from which no safe steps lead to the newest."""
    rollout = None if world.server is None else world.server.rollout
    if rollout is not None and rollout.state is not None and "make two plans of it" in rollout.text:
        world.wanted = world.given[rollout.state.now.base]._replace(q=world.wanted.q)


def _is_over(world: World) -> bool:
    server = world.server
    if server is None or server.rollout.state is None or server.problems.summary:
        return False
    state = server.rollout.state
    return not server.rollout.text and not state.kept and len(state.may_have) == 1 and world.at_rest == world.wanted


def _check_end(world: World) -> None:
    server = world.server
    assert server is not None
    state = server.rollout.state
    assert state is not None
    assert server.problems.summary == ""
    assert server.rollout.text == ""
    assert world.at_rest == world.wanted, f"at {state}, not at {world.wanted}"
    assert not state.kept, state
    assert not server.rollout.publisher.frozen
    assert len(state.may_have) == 1, state
    for name in server.store.groups:
        snapshot = server.store.current(name)
        assert snapshot is not None
        right = world.plan.groups.by_service.get(name, world.plan.groups.passthrough)
        assert right is not None
        assert snapshot.version == right.version, name
    _check_folder(world)
    assert not (world.folder / "state" / "rollout").exists()


def _check_folder(world: World) -> None:
    """No object is left without a reference, and none that has one is missing."""
    objects = {path.name for path in (world.folder / "state" / "objects").iterdir()}
    assert objects == world.state_dir._manifest.objects
