"""Whatever happens to a server and its proxies, in whatever order: no request passes unenforced, and it comes to rest.

python -m tests.serve.test_wandering --examples 5000      tries longer, with other orders each time
"""

from __future__ import annotations

import argparse
import itertools
import logging
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.serve.wandering import PLACES, PLANS, REPLICAS, Mood, World, simulated
from xds_server.resources.types import EXTENSION, LISTENER, ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

SERVICES = st.sampled_from(sorted(REPLICAS))
KEPT = (
    *("", "objects", "state.json", "transition.json", "redirected.json", "interception"),
    *(f"interception/{name}/{file}" for name in sorted(REPLICAS) for file in ("digest", "iptables.rules")),
)
"""What somebody may remove; the first is the whole folder."""
NUMBERS = itertools.count()


class Wandering(RuleBasedStateMachine):
    """See the module."""

    root: Path

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self._patches = simulated(lambda: self.world)
        self._patches.__enter__()

    @initialize(first=st.sampled_from(PLANS))
    def begins(self, first: tuple[str, str, int]) -> None:
        self.world = World(_folder(self.root), first)

    def _proxies(self, service: str) -> list:  # type: ignore[type-arg]
        return [proxy for proxy in self.world.proxies if proxy.service == service]

    @rule(plan=st.sampled_from(PLANS))
    def newer_plan(self, plan: tuple[str, str, int]) -> None:
        self.world.wanted = plan
        self.world.compile()

    @rule()
    def same_plan_again(self) -> None:
        self.world.compile()

    @rule(place=st.sampled_from(PLACES))
    def other_addresses(self, place: int) -> None:
        self.world.place = place
        self.world.compile()

    @rule(seconds=st.sampled_from((0.1, 0.6, 1.1, 4.0, 13.0)))
    def time_passes(self, seconds: float) -> None:
        self.world.tick(seconds)

    @rule()
    def all_goes_well_for_a_while(self) -> None:
        for _ in range(3):
            self.world.all_advance()
            self.world.judge()
            self.world.tick(1.1)
            self.world.judge()

    @rule()
    def all_goes_well_for_long(self) -> None:
        for _ in range(2):
            self.world.all_advance()
            self.world.tick(0.1)
            self.world.judge()
            self.world.tick(13.0)
            self.world.judge()

    @rule(service=SERVICES, which=st.integers(0, 1), times=st.integers(1, 4))
    def takes_something(self, service: str, which: int, times: int) -> None:
        found = self._proxies(service)
        for _ in range(times):
            self.world.advance(found[which % len(found)])
            self.world.judge()

    @rule(service=SERVICES, which=st.integers(0, 1))
    def refuses(self, service: str, which: int) -> None:
        found = self._proxies(service)
        self.world.advance(found[which % len(found)], refuse=True)

    @rule(
        service=SERVICES,
        which=st.integers(0, 2),
        kind=st.sampled_from((EXTENSION, LISTENER, ROUTES)),
        lasting=st.booleans(),
    )
    def refuses_what_changes_next(self, service: str, which: int, kind: str, lasting: bool) -> None:
        found = self._proxies(service)
        for proxy in found if which == 2 else found[which % len(found) :][:1]:
            proxy.mood = Mood(kind, lasting)

    @rule(service=SERVICES, which=st.integers(0, 1), how=st.sampled_from(("leaves", "comes", "is new")))
    def a_proxy(self, service: str, which: int, how: str) -> None:
        found = self._proxies(service)
        proxy = found[which % len(found)]
        if how == "leaves":
            proxy.leave()
        elif how == "is new":
            proxy.restart()
        elif self.world.force is not None and not proxy.connected:
            proxy.come()

    @rule(service=SERVICES)
    def rules_are_looked_at(self, service: str) -> None:
        self.world.look_at_rules(service)

    @rule(service=SERVICES)
    def rules_are_loaded(self, service: str) -> None:
        self.world.load_rules(service)

    @rule(service=SERVICES)
    def pods_are_replaced(self, service: str) -> None:
        self.world.replace_pods(service)

    @rule()
    def it_is_kept(self) -> None:
        self.world.keep()

    @rule(name=st.sampled_from(KEPT))
    def somebody_removes(self, name: str) -> None:
        self.world.lose(name)

    @rule(full=st.sampled_from(("", "parts", "all")))
    def the_disk(self, full: str) -> None:
        self.world.disk.full = full

    @rule(fuse=st.integers(0, 12))
    def it_is_to_die(self, fuse: int) -> None:
        if self.world.force is not None:
            self.world.disk.fuse = fuse

    @rule()
    def it_dies(self) -> None:
        if self.world.force is not None:
            self.world.died()

    @precondition(lambda self: self.world is not None and self.world.force is None)
    @rule(compiles=st.booleans())
    def another_begins(self, compiles: bool) -> None:
        self.world.start()
        for proxy in self.world.proxies:
            if self.world.force is not None:
                proxy.come()
        if compiles:
            self.world.compile()

    def check_invariants(self, *arguments: object, **named: object) -> None:
        super().check_invariants(*arguments, **named)  # type: ignore[arg-type]
        if self.world is not None:
            self.world.judge()

    def teardown(self) -> None:
        try:
            if self.world is not None:
                self.world.come_to_rest()
        finally:
            if self.world is not None:
                self.world.close()
            self._patches.__exit__(None, None, None)


def wander(root: Path, examples: int, steps: int, *, derandomize: bool) -> None:
    Wandering.root = root
    with _quiet():
        run_state_machine_as_test(
            Wandering,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                derandomize=derandomize,
                database=None,
                print_blob=False,
                phases=(Phase.explicit, Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            ),
        )


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("admc.serve")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def test_whatever_happens_nothing_slips_by(tmp_path: Path) -> None:
    wander(tmp_path, 80, 40, derandomize=True)


def test_what_was_refused_is_not_kept_from_whoever_comes(tmp_path: Path) -> None:
    """Else a proxy that was restarted would stay on the old policies whatever plan came."""
    worlds: list[World] = []
    with simulated(lambda: worlds[0] if worlds else None):
        world = World(_folder(tmp_path), ("ingress", "ingress", 0))
        worlds.append(world)
        (stock,) = (proxy for proxy in world.proxies if proxy.service == "stock")
        _change(world, ("ingress", "ingress", 2))
        world.advance(stock, refuse=True)
        assert stock.refuses
        _change(world, ("ingress", "ingress", 0))
        stock.restart()
        for number in (1, 3):
            for _ in range(4):
                world.advance(stock)
            world.judge()
            _change(world, ("ingress", "ingress", number))
        world.come_to_rest()
        assert world.wanted == ("ingress", "ingress", 3)  # it took no further plan
        world.close()


@pytest.mark.parametrize("newest", [("ingress", "ingress", 5), ("ingress", "egress", 5)])
def test_a_server_comes_back_while_a_plan_with_another_service_waits(
    tmp_path: Path, newest: tuple[str, str, int]
) -> None:
    """The addresses of now are those of a plan that is not the one proxies are led to."""
    worlds: list[World] = []
    with simulated(lambda: worlds[0] if worlds else None):
        world = World(_folder(tmp_path), ("ingress", "ingress", 0))
        worlds.append(world)
        _change(world, ("egress", "ingress", 0))
        for _ in range(2):
            world.all_advance()
            world.tick(2.0)
        _change(world, newest)
        for _ in range(2):
            world.all_advance()
            world.tick(2.0)
            world.keep()
        assert world.force is not None
        assert world.force.rollout.underway is not None
        world.died()
        world.start()
        assert world.force is not None
        assert world.force.rollout.underway is not None
        world.judge()
        world.come_to_rest()
        world.close()


def _folder(root: Path) -> Path:
    folder = root / str(next(NUMBERS))
    folder.mkdir()
    return folder


def _change(world: World, plan: tuple[str, str, int]) -> None:
    world.wanted = plan
    world.compile()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wander(Path(folder), options.examples, options.steps, derandomize=False)
