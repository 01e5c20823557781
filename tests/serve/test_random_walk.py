"""The promise of a rollout, held by a whole server under random events: each request meets exactly one plan.

python -m tests.serve.test_random_walk --examples 5000      random examples that differ each time
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

from tests.serve.random_walk import World
from tests.serve.walk_end import come_to_rest
from tests.serve.walk_plans import PLACES, PLANS, REPLICAS, THIRD, Which, simulated
from tests.serve.walk_proxy import TYPES, Proxy, Refusal
from xds_server.resources.types import LISTENER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.long

SERVICES = st.sampled_from(sorted(REPLICAS))
FILES = (
    *("", "objects", "state.json", "redirected.json", "interception"),
    *(f"interception/{name}/{file}" for name in sorted(REPLICAS) for file in ("digest", "iptables.rules")),
)
"""What another process may remove; the first is the whole folder."""
NUMBERS = itertools.count()


class RandomWalk(RuleBasedStateMachine):
    """See the module."""

    root: Path
    loses_files = False

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self._patches = simulated(lambda: self.world)
        self._patches.__enter__()

    @initialize(first=st.sampled_from(PLANS))
    def begin(self, first: Which) -> None:
        self.world = World(_folder(self.root), first)

    def _proxies(self, service: str, which: int) -> list[Proxy]:
        """One proxy of a service, or all of them."""
        found = [proxy for proxy in self.world.proxies if proxy.service == service]
        return found if which == 2 else [found[which % len(found)]]

    @rule(plan=st.sampled_from(PLANS))
    def newer_plan(self, plan: Which) -> None:
        self.world.wanted = plan
        self.world.compile()

    @rule(name=st.sampled_from(("p", "q", "value", "third")), number=st.integers(0, len(THIRD) - 1))
    def change_one_thing(self, name: str, number: int) -> None:
        values = sorted({getattr(plan, name) for plan in PLANS})
        plan = self.world.wanted._replace(**{name: values[number % len(values)]})
        self.newer_plan(plan if plan in PLANS else plan._replace(value="1"))

    @rule()
    def same_plan_again(self) -> None:
        self.world.compile()

    @rule(place=st.sampled_from(PLACES))
    def other_addresses(self, place: int) -> None:
        self.world.place = place
        self.world.compile()

    @rule(name=st.sampled_from(("abort", "continue")))
    def command(self, name: str) -> None:
        self.world.command(name)

    @rule(seconds=st.sampled_from((0.1, 0.6, 1.1, 4.0, 13.0)))
    def time_passes(self, seconds: float) -> None:
        self.world.tick(seconds)

    @rule(seconds=st.sampled_from((0.1, 1.1, 13.0)), times=st.integers(1, 4))
    def all_goes_well(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.world.all_advance()
            self.world.judge()
            self.world.tick(seconds)
            self.world.judge()

    @rule(service=SERVICES, which=st.integers(0, 2), times=st.integers(1, 8))
    def take_responses(self, service: str, which: int, times: int) -> None:
        for proxy in self._proxies(service, which):
            for _ in range(times):
                self.world.advance(proxy)
                self.world.judge()

    @rule(service=SERVICES, which=st.integers(0, 2), kind=st.sampled_from(TYPES), lasting=st.booleans())
    def refuse_the_next_response(self, service: str, which: int, kind: str, lasting: bool) -> None:
        for proxy in self._proxies(service, which):
            proxy.refusal = Refusal(kind, lasting)

    @rule(service=SERVICES, which=st.integers(0, 2), how=st.sampled_from(("leaves", "comes", "is new")))
    def a_proxy(self, service: str, which: int, how: str) -> None:
        for proxy in self._proxies(service, which):
            if how == "leaves":
                proxy.disconnect()
            elif how == "is new":
                proxy.restart()
            else:
                self.world.connect(proxy)

    @rule(service=SERVICES)
    def operator_reads_rules(self, service: str) -> None:
        self.world.read_rules(service)

    @rule(service=SERVICES)
    def operator_loads_rules(self, service: str) -> None:
        self.world.load_rules(service)

    @rule()
    def save(self) -> None:
        self.world.save()

    @precondition(lambda self: self.loses_files)
    @rule(name=st.sampled_from(FILES))
    def a_file_is_removed(self, name: str) -> None:
        self.world.lose(name)

    @rule(full=st.sampled_from(("", "objects", "all")))
    def the_disk(self, full: str) -> None:
        self.world.disk.full = full

    @rule(fuse=st.integers(0, 20))
    def kill_at_an_effect(self, fuse: int) -> None:
        if self.world.server is not None:
            self.world.disk.fuse = fuse

    @rule()
    def kill(self) -> None:
        if self.world.server is not None:
            self.world.kill()

    @precondition(lambda self: self.world is not None and self.world.server is None)
    @rule(compiles=st.booleans())
    def another_server_starts(self, compiles: bool) -> None:
        self.world.start()
        if compiles:
            self.world.compile()

    def check_invariants(self, *arguments: object, **named: object) -> None:
        super().check_invariants(*arguments, **named)  # type: ignore[arg-type]
        if self.world is not None:
            self.world.judge()

    def teardown(self) -> None:
        try:
            if self.world is not None:
                come_to_rest(self.world)
        finally:
            if self.world is not None:
                self.world.close()
            self._patches.__exit__(None, None, None)


def walk(root: Path, examples: int, steps: int, *, derandomize: bool) -> None:
    RandomWalk.root = root
    with _quiet():
        run_state_machine_as_test(
            RandomWalk,
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


def test_each_request_meets_one_plan_through_random_events(tmp_path: Path) -> None:
    walk(tmp_path, 60, 40, derandomize=True)


CART = ("cart", "ingress/80")
AT_INGRESS, NO_POLICIES = Which("ingress", "", "2", 0), Which("", "", "1", 0)
RETURNS: dict[str, tuple[Which, Callable[[RandomWalk], None]]] = {
    "an argument": (AT_INGRESS, lambda it: it.change_one_thing("value", 0)),
    "a policy that comes": (NO_POLICIES, lambda it: it.change_one_thing("p", 2)),
    "a policy that leaves": (AT_INGRESS, lambda it: it.change_one_thing("p", 0)),
}
"""A first plan, and a change that is published at once."""


@contextmanager
def random_walk(root: Path, first: Which) -> Iterator[RandomWalk]:
    """A walk whose rules the caller applies."""
    RandomWalk.root = root
    with _quiet():
        made = RandomWalk()
        try:
            made.begin(first)
            yield made
        finally:
            made.teardown()


@pytest.mark.parametrize("seconds", [0.1, 13.0])
@pytest.mark.parametrize("change", RETURNS)
def test_an_abort_takes_back_a_plan_that_all_proxies_have_just_received(
    tmp_path: Path, change: str, seconds: float
) -> None:
    """The server has not yet seen that they all have it, and so publishes the plan before again."""
    first, apply = RETURNS[change]
    with random_walk(tmp_path, first) as walked:
        world = walked.world
        apply(walked)
        world.judge()
        newer = world.wanted
        walked.all_goes_well(seconds, 1)
        walked.command("abort")
        world.judge()
        assert world.published == {first}
        for service in REPLICAS:
            walked.take_responses(service, 2, 8)
        walked.all_goes_well(13.0, 2)
        assert world.at_rest == first
        assert set(world.since) == {first, newer}


def test_a_restarted_server_continues_to_a_plan_that_it_could_store_only(tmp_path: Path) -> None:
    """It was killed before it published the plan, and does not read the program again."""
    newer = NO_POLICIES._replace(third=1)
    with random_walk(tmp_path, NO_POLICIES) as walked:
        world = walked.world
        walked.kill_at_an_effect(4)
        walked.newer_plan(newer)
        assert world.server is None
        walked.another_server_starts(compiles=False)
        world.judge()
        assert world.published == {NO_POLICIES}
        walked.time_passes(0.1)
        world.judge()
        assert world.published == {newer}


def test_a_plan_that_moves_nothing_does_not_wait_for_redirection(tmp_path: Path) -> None:
    """Where its rules are missing, no request meets its policies. Nor those of the next such plan."""
    with random_walk(tmp_path, Which("egress", "", "1", 0)) as walked:
        world = walked.world
        walked.change_one_thing("q", 2)
        walked.all_goes_well(13.0, 2)
        walked.change_one_thing("p", 0)
        walked.all_goes_well(13.0, 2)
        assert world.published == {Which("", "ingress", "1", 0)}
        assert [world.missed[each] for each in world.since] == [set(), {CART}, {CART}]
        assert world.at_rest is None


@pytest.mark.parametrize("fuse", [None, *range(12)])
def test_an_abort_that_fails_withdraws_no_request_for_redirection(tmp_path: Path, fuse: int | None) -> None:
    """What `web` lacks is still requested: the disk is full, or the server is killed at any effect of the abort."""
    with random_walk(tmp_path, NO_POLICIES._replace(third=6)) as walked:
        walked.change_one_thing("third", 1)
        walked.kill()
        walked.another_server_starts(compiles=False)
        if fuse is None:
            walked.the_disk("objects")
        else:
            walked.kill_at_an_effect(fuse)
        walked.command("abort")
        walked.world.judge()
        if walked.world.server is None:
            walked.another_server_starts(compiles=False)
        walked.time_passes(1.1)
        walked.world.judge()


@pytest.mark.parametrize("fuse", range(16))
def test_a_plan_that_is_not_published_leaves_no_request_for_other_rules(tmp_path: Path, fuse: int) -> None:
    """With the newer plan, `web` needs other rules. While it has the older plan, it needs those that are loaded."""
    with random_walk(tmp_path, Which("egress", "", "1", 8)) as walked:
        walked.kill_at_an_effect(fuse)
        walked.newer_plan(Which("", "", "1", 1))
        if walked.world.server is None:
            walked.another_server_starts(compiles=False)
        walked.operator_reads_rules("web")
        walked.operator_loads_rules("web")
        walked.world.judge()


def test_no_safe_steps_lead_from_where_an_abort_goes_back_to(tmp_path: Path) -> None:
    """The newest plan was accepted because safe steps lead to it from the one under way."""
    with random_walk(tmp_path, Which("egress", "ingress", "1", 0)) as walked:
        walked.newer_plan(Which("egress", "egress", "1", 0))
        walked.time_passes(1.1)
        walked.newer_plan(Which("ingress", "egress", "1", 0))
        walked.command("abort")
        walked.command("continue")
        walked.all_goes_well(13.0, 2)
        server = walked.world.server
        assert server is not None
        assert "make two plans of it" in server.rollout.text


def test_the_plan_that_stays_is_served_at_the_newest_addresses(tmp_path: Path) -> None:
    """A restarted server refuses a newer plan, in which policies move both ways, and addresses have changed as well."""
    with random_walk(tmp_path, Which("egress", "ingress", "1", 0)) as walked:
        walked.kill()
        walked.newer_plan(Which("ingress", "egress", "1", 0))
        walked.other_addresses(PLACES[1])


def test_an_older_connection_keeps_a_guard_where_another_of_its_name_follows(tmp_path: Path) -> None:
    """The guard has another `when` in the second plan, so it is another one, which may change in the third."""
    with random_walk(tmp_path, Which("ingress", "", "1", 8)) as walked:
        walked.newer_plan(Which("", "ingress", "1", 7))
        walked.all_goes_well(1.1, 3)
        walked.other_addresses(PLACES[1])
        walked.all_goes_well(1.1, 2)
        walked.newer_plan(Which("", "", "1", 6))
        walked.all_goes_well(1.1, 2)


@pytest.mark.parametrize("third", [6, 7])
@pytest.mark.parametrize("q", [("egress", ""), ("", "egress")])
def test_a_guard_that_gets_another_match_changes_with_the_policies_that_move(
    tmp_path: Path, q: tuple[str, str], third: int
) -> None:
    """The receiver's filter chain has the same name in both plans, and other policies change at senders."""
    with random_walk(tmp_path, Which("ingress", q[0], "1", third)) as walked:
        walked.newer_plan(Which("ingress", q[1], "2", 8))


def test_a_restarted_server_knows_which_guards_older_connections_have(tmp_path: Path) -> None:
    """What it published last may be stored, and the snapshots that it had published before, too."""
    with random_walk(tmp_path, Which("", "egress", "1", 8)) as walked:
        walked.newer_plan(Which("egress", "", "2", 6))
        walked.kill()
        walked.another_server_starts(compiles=False)
        walked.all_goes_well(0.1, 1)


def test_a_new_proxy_that_starts_from_the_plan_before_a_refused_one_counts_as_having_it(tmp_path: Path) -> None:
    """The newest plan moves nothing against the refused one. Against the plan before, it moves `p` to senders."""
    with random_walk(tmp_path, AT_INGRESS) as walked:
        world = walked.world
        walked.refuse_the_next_response("cart", 0, LISTENER, lasting=True)
        walked.newer_plan(NO_POLICIES)
        walked.all_goes_well(0.1, 2)
        walked.a_proxy("cart", 0, "is new")
        (cart,) = walked._proxies("cart", 2)
        cart.id = "cart-1"  # of a new pod
        walked.a_proxy("cart", 0, "comes")
        walked.time_passes(0.1)
        state = world.server.rollout.state
        assert ["cart" in each.services for each in state.may_have] == [True, True]
        walked.newer_plan(AT_INGRESS._replace(p="egress"))
        walked.time_passes(0.1)
        for service in ("web", "till"):
            walked.take_responses(service, 2, 8)
        walked.take_responses("cart", 2, 8)


def test_addresses_return_while_nothing_can_be_stored(tmp_path: Path) -> None:
    with random_walk(tmp_path, NO_POLICIES) as walked:
        walked.newer_plan(Which("", "egress", "1", 6))
        walked.the_disk("all")
        walked.other_addresses(PLACES[1])
        walked.other_addresses(PLACES[0])


def _folder(root: Path) -> Path:
    folder = root / str(next(NUMBERS))
    folder.mkdir()
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        walk(Path(folder), options.examples, options.steps, derandomize=False)
