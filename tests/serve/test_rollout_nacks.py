"""A NACK stops a rollout, until a newer plan takes the refused configuration back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from admc.base.exits import CommandError
from admc.serve.rollout.model import StepName
from tests.serve.always_ack import (
    PROGRAM,
    Agreeing,
    at,
    back,
    begun,
    close_all,
    following,
    hasten,
    planned,
    planned_by,
)
from xds_server.resources.ack_events import Nacked
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import EXTENSION, TRIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from admc.serve.publication.controller import Rollout
    from admc.serve.publication.plans import Planned
    from xds_server.transport.client_registry import ClientView

EGRESS = "egress-gold.adm"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


def version(plan: Planned, service: str) -> str:
    assert plan.groups is not None
    return plan.groups.by_service[service].version


def is_proven(rollout: Rollout) -> bool:
    return rollout.state is not None and rollout.state.proven == rollout.state.now


@pytest.mark.long
@pytest.mark.parametrize("restarts", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_refused_plan_is_taken_back_before_one_that_moves_something(tmp_path: Path, *, restarts: bool) -> None:
    """Otherwise the first step would have the refused configuration, and the proxy would refuse the step, too."""
    bad, last = planned(tmp_path, "egress", "silver"), planned(tmp_path, "ingress", "bronze")
    server = Agreeing()
    server.declined.add(version(bad, "web"))
    seen: list[str] = []

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            await rollout.accept(bad)
            assert at(rollout) == "egress-silver.adm"
        if restarts:
            rollout = await back(server, tmp_path / "state")

        def over() -> bool:
            seen.extend([at(rollout)] if [at(rollout)] != seen[-1:] else [])
            return at(rollout) == "ingress-bronze.adm" and not rollout.under_way

        async with following(rollout) as until:
            await rollout.accept(last)
            await until(over)
            assert [each for each in seen if each in (EGRESS, *StepName)] == [EGRESS, *StepName]
            await until(lambda: (now := server.store.current("cart")) and now.version == version(last, "cart"))

    asyncio.run(run())


@pytest.mark.long
def test_a_first_plan_that_is_refused_is_mended_by_one_in_which_policies_keep_their_sides(tmp_path: Path) -> None:
    """There is no earlier plan to return to, and the steps to another side would be refused, too."""
    bad, good, last = planned(tmp_path, "egress"), planned(tmp_path, "egress", "bronze"), planned(tmp_path, "ingress")
    server = Agreeing()
    server.declined.add(version(bad, "web"))

    async def run() -> None:
        rollout = await begun(server, bad, tmp_path / "state")
        async with following(rollout) as until:
            await rollout.accept(last)
            mends = (
                "`web`: 1 of 1 proxies refused it: `web` (a newer plan in which policies keep their places mends that)"
            )
            await until(lambda: mends in rollout.text)
            assert at(rollout) == EGRESS
            await rollout.accept(good)
            await until(lambda: at(rollout) == "egress-bronze.adm" and not rollout.under_way)
            await rollout.accept(last)
            await until(lambda: at(rollout) == "ingress-gold.adm")

    asyncio.run(run())


@pytest.mark.long
def test_a_plan_that_moves_something_waits_for_acknowledgements_of_the_one_before(tmp_path: Path) -> None:
    slow, last = planned(tmp_path, "egress", "silver"), planned(tmp_path, "ingress", "bronze")
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), None)
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            server.away = {"web"}
            await rollout.accept(slow)
            await rollout.accept(last)
            await until(lambda: "connected" in rollout.text)
            await asyncio.sleep(0.5)
            assert at(rollout) == "egress-silver.adm"
            server.away = set()
            await until(lambda: at(rollout) == "ingress-bronze.adm")

    asyncio.run(run())


class _Stubborn(Agreeing):
    """The proxy of one service keeps its configuration, and sends a NACK for every other one."""

    def __init__(self) -> None:
        super().__init__()
        self.stays: dict[str, str] = {}

    def stay(self, service: str) -> None:
        found = self.store.current(service)
        assert found is not None
        self.stays[service] = found.version

    def views(self, groups: Iterable[str]) -> tuple[ClientView, ...]:
        return tuple(
            view._replace(refuses=view.acknowledged != stays, acknowledged=stays)
            if (stays := self.stays.get(view.group)) is not None
            else view
            for view in super().views(groups)
        )


@pytest.mark.long
def test_a_newer_plan_goes_forward_again_where_the_way_back_is_refused(tmp_path: Path) -> None:
    once = PROGRAM.replace("set_request_header", "add_request_header")

    def plan(side: str, value: str) -> Planned:
        return planned_by(tmp_path / f"{side}-{value}.adm", once.replace("SIDE", side).replace("gold", value))

    server = _Stubborn()

    async def run() -> None:
        rollout = await begun(server, plan("egress", "gold"), tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            await rollout.accept(plan("ingress", "gold"))
            await until(lambda: at(rollout) == StepName.RECEIVERS)
            server.stay("cart")
            await rollout.abort()
            refused = "`cart`: 1 of 1 proxies refused it: `cart` (a newer plan mends that)"
            await until(lambda: rollout.waits == (refused,))
            assert at(rollout) == StepName.SENDERS
            assert "which is taken back: step `senders`" in rollout.text
            assert refused in rollout.text
            await rollout.accept(plan("egress", "bronze"))
            assert rollout.state is not None
            assert not rollout.state.back
            assert at(rollout) == StepName.RECEIVERS
            server.stays.clear()
            await until(lambda: at(rollout) == "ingress-gold.adm")
            await until(lambda: at(rollout) == "egress-bronze.adm")

    asyncio.run(run())


APP = """\
app shop
service web, cart, guard { http 8080 }
call web -> cart, guard
"""


def delayed(folder: Path, milliseconds: int, *sides: str) -> Planned:
    """The sides of `p` and `q` at `cart`, and of `r` at `guard`."""
    policies = (
        f"policy p = fault_delay(delay: {milliseconds}ms) on web -> cart\n"
        "policy q = request_count() on web -> cart\npolicy r = request_count() on web -> guard\n"
    )
    pins = "".join(f"pin {name} at {side}\n" for name, side in zip("pqr", sides, strict=True))
    return planned_by(folder / f"{milliseconds}-{'-'.join(sides)}.adm", APP + policies + pins)


@pytest.mark.long
@pytest.mark.parametrize("step", [pytest.param(StepName.PREPARE, marks=pytest.mark.long), StepName.SENDERS])
def test_a_plan_without_safe_steps_is_rejected_at_once_and_the_rollout_goes_on(tmp_path: Path, step: StepName) -> None:
    second = delayed(tmp_path, 5, "ingress", "egress", "ingress")
    third = delayed(tmp_path, 6, "egress", "ingress", "ingress")
    between = delayed(tmp_path, 5, "egress", "egress", "ingress")
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, delayed(tmp_path, 5, "ingress", "egress", "egress"), tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            await rollout.accept(second)
            await until(lambda: at(rollout) == step)
            with pytest.raises(CommandError) as rejected:
                await rollout.accept(third)
            assert [item.code for item in rejected.value.diagnostics] == ["ADM855"]
            assert rollout.state is not None
            assert not rollout.state.back
            await until(lambda: at(rollout) == "5-ingress-egress-ingress.adm" and not rollout.under_way)
            # Two plans, one after the other, have safe steps.
            await rollout.accept(between)
            await until(lambda: at(rollout) == "5-egress-egress-ingress.adm" and not rollout.under_way)
            await rollout.accept(third)
            await until(lambda: at(rollout) == "6-egress-ingress-ingress.adm")

    asyncio.run(run())


def numbered(folder: Path, side: str, number: int) -> Planned:
    """A policy may change sides, and the port another number, one after the other (ADM855)."""
    text = PROGRAM.replace("SIDE", side).replace("http 8081", f"http {number} -> 8081")
    return planned_by(folder / f"{side}-{number}.adm", text)


@pytest.mark.long
def test_a_plan_that_is_safe_after_the_one_under_way_waits_for_it(tmp_path: Path) -> None:
    """Two plans are the way round where one is refused. The second one may come before the first is in force."""
    first, second, third = (numbered(tmp_path, *each) for each in (("ingress", 80), ("egress", 80), ("egress", 90)))
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, first, tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            server.older = {"cart": frozenset({"older"})}
            await rollout.accept(second)
            await until(lambda: at(rollout) == StepName.PREPARE)
            await rollout.accept(third)
        again = await back(server, tmp_path / "state")
        async with following(again) as until:
            assert at(again) == StepName.PREPARE
            assert again.state is not None
            assert not again.state.back
            server.older = {}
            await until(lambda: at(again) == "egress-90.adm" and not again.under_way)

    asyncio.run(run())


@pytest.mark.long
def test_a_rollout_without_safe_steps_after_a_refusal_says_what_to_do(tmp_path: Path) -> None:
    first, second, third = (numbered(tmp_path, *each) for each in (("ingress", 80), ("egress", 80), ("egress", 90)))
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, first, tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            await rollout.accept(second)
            await until(lambda: at(rollout) == StepName.SENDERS)
            server.away = {"web"}
            await rollout.accept(third)
            server.away, server.refuses = set(), True
            server.declined = {item.version for name in ("web", "cart") if (item := server.store.current(name))}
            await until(lambda: at(rollout) == StepName.PREPARE)
            server.refuses, server.declined = False, set()
            await until(lambda: "make two plans of it" in rollout.text)
            assert at(rollout) == "ingress-80.adm"
            await rollout.accept(third)  # the same text, saved again
            await rollout.accept(second)
            await until(lambda: at(rollout) == "egress-80.adm" and not rollout.under_way)

    asyncio.run(run())


def test_older_connections_keep_the_configuration_before_the_one_that_was_refused(tmp_path: Path) -> None:
    """Else the plan that drops the policy would bring the refused configuration again, and be refused for that."""
    more = PROGRAM + "policy q = request_count() on web -> cart\npin q at egress\n"
    texts = [more.replace("SIDE", "egress").replace("gold", value) for value in ("gold", "bad")]
    texts.append("".join((*PROGRAM.splitlines(keepends=True)[:-2], *more.splitlines(keepends=True)[-2:])))
    old, bad, good = (planned_by(tmp_path / f"{number}.adm", text) for number, text in enumerate(texts))
    server = Agreeing()

    def filters() -> dict[str, str]:
        now = server.store.current("web")
        assert now is not None
        assert not now.dangling()
        return {name: each.version for name, each in now.of_type(EXTENSION).resources.items() if name != TRIAL}

    async def run() -> None:
        rollout = await begun(server, old, tmp_path / "state")
        first = server.store.current("web")
        assert first is not None
        server.store.acked("web", first)
        before = filters()
        await rollout.accept(bad)
        second = server.store.current("web")
        assert second is not None
        (changed,) = (name for name, version in filters().items() if before[name] != version)
        trial = second.of_type(EXTENSION).resources[TRIAL].version
        server.store.nacked("web", Nacked(EXTENSION, "", "no", second, {TRIAL: trial}))
        server.declined.add(second.version)
        await rollout.accept(good)
        assert at(rollout) == "2.adm"
        assert filters()[changed] == before[changed]
        server.store = SnapshotCache()
        await back(server, tmp_path / "state")
        assert filters()[changed] == before[changed]

    asyncio.run(run())
