"""Destinations that NetworkPolicies close: receivers enforce less only once they are closed, whichever way it goes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from admc.serve.publication import progress
from admc.serve.publication.closing import destinations
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.steps import steps
from emitters.envoy import Mode
from tests.serve.always_ack import Agreeing, at, back, begun, close_all, following, hasten, planned_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from admc.serve.publication.controller import Rollout
    from admc.serve.publication.plans import Planned
    from dsl.program import Program

PROGRAM = """\
app shop
service web  { http 8080 }
service api  { http 8082 }
service cart { http 8081 }
call web -> cart
policy p = set_request_header(name: "x-tier", value: "gold") on * -> cart
pin p at SIDE
"""
ALSO_API = PROGRAM.replace("call web -> cart", "call web -> cart\ncall api -> cart")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


class Asked:
    """A cluster that closes what it is asked to, or does not."""

    def __init__(self, rollout_at: list[str]) -> None:
        self.wanted: Mapping[str, Program] = {}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        """What was published when it was asked, and for what."""
        self.closes = True
        self.text = ""
        self._at = rollout_at

    def ask(self, destinations: Mapping[str, Program]) -> None:
        self.wanted = dict(destinations)
        self.asked.append((self._at[-1] if self._at else "", tuple(destinations)))

    def missing(self, destinations: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in sorted(destinations) if not (self.closes and name in self.wanted))


def planned(folder: Path, side: str, text: str = PROGRAM) -> Planned:
    name = side if text == PROGRAM else f"{side}-api"
    return planned_by(folder / f"{name}.adm", text.replace("SIDE", side), Mode.EXPLICIT)


class Bed:
    """A server whose steps are noted, with such a cluster."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.folder = Agreeing(), folder
        self.published: list[str] = []
        self.closing = Asked(self.published)
        self._rollout: Rollout | None = None
        log = progress.log

        def noted(*what: Any) -> None:
            assert self._rollout is not None
            self.published.append(at(self._rollout))
            log(*what)

        monkeypatch.setattr(progress, "log", noted)

    async def begin(self, first: Planned) -> Rollout:
        return self._noted(await begun(self.server, first, self.folder / "state", closing=self.closing))

    async def back(self) -> Rollout:
        self.closing.wanted = {}
        return self._noted(await back(self.server, self.folder / "state", closing=self.closing))

    def _noted(self, rollout: Rollout) -> Rollout:
        self.published.append(at(rollout))
        self._rollout = rollout
        return rollout


WAITS = "`cart`: its NetworkPolicy"


@pytest.mark.long
def test_a_move_begins_once_the_destinations_of_the_new_plan_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(tmp_path, monkeypatch)
    bed.closing.closes = False

    async def run() -> None:
        rollout = await bed.begin(planned(tmp_path, "ingress"))
        assert bed.closing.asked == [("", ())]
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: WAITS in rollout.waits)
            assert rollout.text.endswith(f" waits for {WAITS}; then a newer plan begins")
            await asyncio.sleep(0.5)
            # Connections that are older than `prepare` are closed in it: so none is older than the NetworkPolicy.
            assert bed.published == ["ingress.adm"]
            bed.closing.closes = True
            await until(lambda: rollout.text == "")
        assert bed.published == ["ingress.adm", *map(str, StepName), "egress.adm"]
        # It was asked for before `prepare` was published, and again as the new plan alone has it.
        assert bed.closing.asked == [("", ()), ("ingress.adm", ("cart",)), ("egress.adm", ("cart",))]

    asyncio.run(run())


def test_a_destination_that_opens_again_in_senders_holds_it_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(tmp_path, monkeypatch)

    async def run() -> None:
        rollout = await bed.begin(planned(tmp_path, "ingress"))
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == "senders")
            bed.closing.closes = False
            await until(lambda: WAITS in rollout.waits)
            await rollout.abort()
            await until(lambda: at(rollout) == "ingress.adm" and rollout.waits == ())
            # What only the aborted plan closes is opened once no proxy has anything of it.
            await until(lambda: bed.closing.asked[-1] == ("ingress.adm", ()))
        assert "receivers" not in bed.published

    asyncio.run(run())


@pytest.mark.long
def test_destinations_of_the_old_plan_are_opened_after_the_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(tmp_path, monkeypatch)

    async def run() -> None:
        rollout = await bed.begin(planned(tmp_path, "egress"))
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "ingress"))
            await until(lambda: at(rollout) == "ingress.adm")
            assert bed.closing.wanted.keys() == {"cart"}
            await until(lambda: rollout.text == "")
            await until(lambda: bed.closing.wanted == {})
        assert bed.closing.asked == [("", ("cart",)), ("egress.adm", ("cart",)), ("ingress.adm", ())]

    asyncio.run(run())


@pytest.mark.long
@pytest.mark.parametrize("step", [StepName.RELEASE, StepName.RECEIVERS])
def test_the_way_back_waits_until_the_destinations_of_the_old_plan_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: StepName
) -> None:
    bed = Bed(tmp_path, monkeypatch)

    async def run() -> None:
        rollout = await bed.begin(planned(tmp_path, "egress"))
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "ingress"))
            await until(lambda: at(rollout) == step)
            bed.closing.closes = False
            await rollout.abort()
            await until(lambda: WAITS in rollout.waits)
            await asyncio.sleep(0.5)
            assert bed.published[-1] == step
            bed.closing.closes = True
            await until(lambda: at(rollout) == "egress.adm" and rollout.waits == ())
        assert bed.closing.wanted.keys() == {"cart"}

    asyncio.run(run())


@pytest.mark.long
def test_a_restarted_server_asks_again_before_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(tmp_path, monkeypatch)
    bed.closing.closes = False

    async def run() -> None:
        rollout = await bed.begin(planned(tmp_path, "ingress"))
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: WAITS in rollout.waits)
        again = await bed.back()
        assert bed.closing.wanted.keys() == {"cart"}
        async with following(again) as until:
            await until(lambda: WAITS in again.waits)
            bed.closing.closes = True
            await until(lambda: again.text == "")

    asyncio.run(run())


@pytest.mark.long
def test_without_a_cluster_destinations_are_taken_for_closed(tmp_path: Path) -> None:
    async def run() -> None:
        rollout = await begun(Agreeing(), planned(tmp_path, "ingress"), None)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == "egress.adm" and rollout.text == "")

    asyncio.run(run())


def placed(folder: Path, side: str, text: str = PROGRAM) -> Placed:
    return planned(folder, side, text).placed


def test_what_a_step_relies_on(tmp_path: Path) -> None:
    opened, closed = placed(tmp_path, "ingress"), placed(tmp_path, "egress")
    found = [
        [step.relies_on for step in steps(old, new, b"k").values()] for old, new in ((opened, closed), (closed, opened))
    ]
    assert found == [[("cart",), ("cart",), (), ()], [(), (), ("cart",), ("cart",)]]


def test_while_two_plans_close_a_destination_only_senders_of_both_are_admitted(tmp_path: Path) -> None:
    one, two, opened = (
        placed(tmp_path, "egress"),
        placed(tmp_path, "egress", ALSO_API),
        placed(tmp_path, "ingress", ALSO_API),
    )

    def admitted(*plans: Placed) -> list[str]:
        (target,) = destinations(plans)["cart"].admitted.values()
        return sorted(target.parties)

    assert admitted(one) == ["web"]
    assert admitted(two) == ["api", "web"]
    assert admitted(one, two) == admitted(two, one) == ["web"]
    assert admitted(opened, two) == admitted(two, opened) == ["api", "web"]  # one of them closes it
    assert destinations([opened]) == {}
    assert destinations([one, opened])["cart"] == (one.program, {8081: (one.program, {"web"})}, False)


TWO_PORTS = """\
app shop
service web  { http 8080 }
service api  { http 8082 }
service cart { http 8081 -> 9081  http admin 8083 -> 9083  http metrics 9100 }
call web -> cart:8081
call api -> cart:8081
call api -> cart:8083
policy p = request_count() on * -> cart:8081
policy q = access_log() on * -> cart:8083
pin p at FIRST
pin q at SECOND
"""


def two_ports(folder: Path, first: str, second: str, without: str = "") -> Placed:
    text = TWO_PORTS.replace("FIRST", first).replace("SECOND", second).replace(without, "")
    name = f"{first}-{second}-{len(without)}.adm"
    return planned_by(folder / name, text, Mode.EXPLICIT).placed


def test_a_step_relies_on_ports_of_a_destination_that_is_closed_at_another_port_already(tmp_path: Path) -> None:
    one, other, both = (
        two_ports(tmp_path, *sides) for sides in (("egress", "ingress"), ("ingress", "egress"), ("egress", "egress"))
    )

    def relied(old: Placed, new: Placed) -> list[tuple[str, ...]]:
        return [step.relies_on for step in steps(old, new, b"k").values()]

    assert relied(one, both) == [("cart",), ("cart",), (), ()]
    assert relied(both, one) == [(), (), ("cart",), ("cart",)]
    assert relied(one, other) == [("cart",)] * 4
    assert relied(both, both) == [()] * 4
    first, *_, last = steps(one, other, b"k").values()
    assert (first.closes, first.opens, last.closes, last.opens) == (("cart",), (), (), ("cart",))


def test_a_target_that_one_of_two_plans_closes_admits_the_senders_of_that_plan(tmp_path: Path) -> None:
    def admitted(*plans: Placed) -> dict[int, list[str]]:
        return {target: sorted(its.parties) for target, its in destinations(plans)["cart"].admitted.items()}

    one = two_ports(tmp_path, "egress", "ingress")
    other = two_ports(tmp_path, "ingress", "egress", "call web -> cart:8081\n")
    both = two_ports(tmp_path, "egress", "egress", "call api -> cart:8081\n")
    assert admitted(one) == {9081: ["api", "web"]}
    assert admitted(one, other) == admitted(other, one) == {9081: ["api", "web"], 9083: ["api"]}
    assert admitted(one, both) == {9081: ["web"], 9083: ["api"]}
    assert destinations([one, other])["cart"].program is other.program
