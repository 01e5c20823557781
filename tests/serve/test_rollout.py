"""From plan to plan, with a server in this process and proxies that take what they are given, or do not."""

from __future__ import annotations

import asyncio
import json
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from admc.base.exits import CommandError, wrong_usage
from admc.serve.environment import BegunStep
from admc.serve.files.state_dir import StateDir
from admc.serve.rollout.model import StepName
from admc.serve.storage.position import Position
from tests.serve.always_ack import SECONDS, Agreeing, at, back, begun, close_all, following, hasten, planned
from xds_server.resources.types import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from xds_server.resources.snapshot import Snapshot

INGRESS, EGRESS, BRONZE = "ingress-gold.adm", "egress-gold.adm", "ingress-bronze.adm"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


def tables(server: Agreeing, service: str) -> frozenset[str]:
    found = server.store.current(service)
    return frozenset() if found is None else frozenset(found.collections[ROUTES].resources)


def test_a_policy_moves_step_by_step_and_each_step_is_published(tmp_path: Path) -> None:
    server, versions = Agreeing(), []

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), None)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            for step in (*StepName, EGRESS):
                await until(lambda step=step: at(rollout) == step)  # type: ignore[misc]
                versions.append({name: server.store.current(name).version for name in ("web", "cart")})  # type: ignore[union-attr]
            await until(lambda: rollout.text == "")
        assert list(rollout.steps) == [
            BegunStep(number, f"`p` changes places: step `{step.value}`") for number, step in enumerate(StepName, 1)
        ]

    asyncio.run(run())
    assert all(one != other for one, other in pairwise(versions))


@pytest.mark.parametrize("step", StepName)
def test_a_server_that_is_killed_in_a_step_comes_back_to_it(tmp_path: Path, step: StepName) -> None:
    server, folder = Agreeing(), tmp_path / "state"

    async def run() -> None:
        first = await begun(server, planned(tmp_path, "ingress"), folder)
        async with following(first) as until:
            await until(lambda: first.state is not None and first.state.proven == first.state.now)
            await first.accept(planned(tmp_path, "egress"))
            await until(lambda: at(first) == step)
        key = first.state.key if first.state is not None else b""
        again = await back(server, folder)
        assert at(again) == step
        assert again.state is not None
        assert again.state.key == key
        async with following(again) as until:
            await until(lambda: at(again) == EGRESS)

    asyncio.run(run())


def test_a_step_that_cannot_be_kept_is_not_taken_until_it_can(tmp_path: Path) -> None:
    server, folder = Agreeing(), tmp_path / "state"

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), folder)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == StepName.PREPARE)
            before = published(server)
            (folder / "objects").rename(tmp_path / "objects")
            await until(lambda: bool(server.failures))
            assert at(rollout) == StepName.PREPARE
            assert any("cannot store the state" in each for each in rollout.waits)
            assert published(server) == before
            (tmp_path / "objects").rename(folder / "objects")
            await until(lambda: at(rollout) == EGRESS)

    asyncio.run(run())


@pytest.mark.long
def test_a_proxy_that_is_away_holds_up_the_step(tmp_path: Path) -> None:
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), None)
        server.away = {"web"}
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == StepName.PREPARE)
            await until(lambda: rollout.waits == ("`web`: 0 of 1 proxies are connected",))
            await asyncio.sleep(0.5)
            assert at(rollout) == StepName.PREPARE
            server.away = set()
            await until(lambda: at(rollout) == EGRESS)

    asyncio.run(run())


def test_older_connections_hold_up_prepare_and_keep_their_tables(tmp_path: Path) -> None:
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), None)
        before = tables(server, "cart")
        assert before
        server.older = {"cart": before}
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: rollout.waits == ("`cart`: older connections to be closed",))
            assert at(rollout) == StepName.PREPARE
            assert tables(server, "cart") > before
            server.older = {}
            await until(lambda: at(rollout) == EGRESS)
            await until(lambda: not tables(server, "cart") & before)

    asyncio.run(run())


def test_a_refused_step_stays_and_a_newer_plan_takes_it_back(tmp_path: Path) -> None:
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), None)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == StepName.SENDERS)
            refused = server.store.current("web")
            assert refused is not None
            server.declined = {refused.version}
            await until(lambda: any("refused" in each for each in rollout.waits))
            await rollout.accept(planned(tmp_path, "ingress", "bronze"))
            await until(lambda: at(rollout) == BRONZE)

    asyncio.run(run())


@pytest.mark.long
def test_an_aborted_plan_stays_so_over_a_restart_until_it_is_continued(tmp_path: Path) -> None:
    server, folder = Agreeing(), tmp_path / "state"

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), folder)
        newer = planned(tmp_path, "egress")
        async with following(rollout) as until:
            await until(lambda: rollout.state is not None and rollout.state.proven == rollout.state.now)
            await rollout.accept(newer)
            await until(lambda: at(rollout) == StepName.RECEIVERS)
            assert "is aborted, and proxies go back to state" in await rollout.abort()
            await until(lambda: at(rollout) == INGRESS)
        again = await back(server, folder)
        await again.accept(newer)
        async with following(again) as until:
            await asyncio.sleep(0.5)
            assert at(again) == INGRESS
            assert (await again.continue_()).endswith(" goes on")
            await until(lambda: at(again) == EGRESS)

    asyncio.run(run())


def test_a_plan_that_is_not_safe_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), tmp_path / "state")
        shutil.rmtree(tmp_path / "state")
        async with following(rollout) as until:
            with pytest.raises(Exception, match="cannot store"):
                await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: True)
            assert at(rollout) == INGRESS

    asyncio.run(run())


@pytest.mark.long
def test_a_rollout_has_ended_only_once_a_restarted_server_would_begin_with_its_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, folder = Agreeing(), tmp_path / "state"

    def full(*_: object) -> None:
        raise wrong_usage("ADM854", "cannot store the state in `state`")

    def stored() -> object:
        return json.loads((folder / "state.json").read_text())["rollout"]["now"]["step"]

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), folder)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == StepName.RELEASE)
            with monkeypatch.context() as patched:
                patched.setattr(StateDir, "save_as_owner", full)
                await until(lambda: rollout.waits == ("cannot store the state in `state`",))
                assert at(rollout) == StepName.RELEASE == stored()
                assert rollout.under_way
            await until(lambda: not rollout.under_way)
            assert at(rollout) == EGRESS
            assert stored() is None

    asyncio.run(run())


@pytest.mark.long
def test_a_rollout_that_has_ended_is_not_taken_up_again_by_a_restarted_server(tmp_path: Path) -> None:
    server, folder = Agreeing(), tmp_path / "state"
    new = planned(tmp_path, "egress")

    def is_published() -> bool:
        found = server.store.current("web")
        assert found is not None
        assert new.groups is not None
        return found.version == new.groups.by_service["web"].version

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), folder)
        async with following(rollout) as until:
            await rollout.accept(new)
            await until(lambda: not rollout.under_way and is_published())
        again = await back(server, folder)
        steps: list[str] = [at(again)]
        server.store.watchers.append(lambda *_: steps.append(at(again)))
        async with following(again) as until:
            await until(lambda: not again.under_way and is_published())
        assert set(steps) == {EGRESS}

    asyncio.run(run())


def test_a_server_that_stops_while_it_publishes_a_step_keeps_that_step(tmp_path: Path) -> None:
    """The last save of a server that stops does not replace what was stored before the step was published."""
    server, folder = Agreeing(), tmp_path / "state"

    def stored() -> object:
        return json.loads((folder / "state.json").read_text())["rollout"]["now"]["step"]

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), folder)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == StepName.PREPARE)
            publish, published = rollout.publisher.publish, asyncio.Event()

            async def slow(snapshots: Mapping[str, Snapshot]) -> int:
                count = await publish(snapshots)
                published.set()
                await asyncio.sleep(SECONDS)
                return count

            rollout.publisher.publish = slow  # type: ignore[method-assign]
            await published.wait()
            assert stored() == StepName.SENDERS
        assert server.kept is not None
        server.kept.save(rollout.position, {})
        assert stored() == StepName.SENDERS

    asyncio.run(run())


@pytest.mark.long
def test_a_save_that_takes_long_does_not_replace_a_newer_step(tmp_path: Path) -> None:
    """A server that is killed then would restart with a step that its proxies have left."""
    server, folder = Agreeing(), tmp_path / "state"

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), folder)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == StepName.PREPARE)

            async def slow(position: Position | None) -> None:
                await asyncio.sleep(1.0)
                assert server.kept is not None
                server.kept.save(position, {})

            await rollout.save(slow)
            assert rollout.state is not None
            assert json.loads((folder / "state.json").read_text())["rollout"]["now"]["step"] == rollout.state.now.step
            await until(lambda: at(rollout) == "egress-gold.adm")

    asyncio.run(run())


# ---- a server that does not lead the proxies any more ----


def published(server: Agreeing) -> dict[str, Snapshot | None]:
    return {name: server.store.current(name) for name in server.store.groups}


@pytest.mark.long
def test_a_server_that_does_not_lead_stays_at_its_step_and_takes_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, lead = Agreeing(), [True]
    stored: list[Position | None] = []
    save = StateDir.save_as_owner

    def noted(self: StateDir, position: Position | None, groups: Mapping[str, Snapshot]) -> None:
        stored.append(position)
        save(self, position, groups)

    monkeypatch.setattr(StateDir, "save_as_owner", noted)

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), tmp_path / "state", may_publish=lambda: lead[0])
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == "prepare")
            lead[0] = False
            await until(lambda: rollout.waits == ("this server to lead the proxies again",))
            step, count, shown = at(rollout), len(stored), published(server)
            for refused in (rollout.accept(planned(tmp_path, "ingress", "bronze")), rollout.abort()):
                with pytest.raises(CommandError) as raised:
                    await refused
                assert raised.value.diagnostics[0].code == "ADM951"
            await rollout.save(save_nothing)
            await asyncio.sleep(0.3)
            assert (at(rollout), len(stored), published(server)) == (step, count, shown)
            lead[0] = True
            await until(lambda: at(rollout) == EGRESS)

    async def save_nothing(position: Position | None) -> None:
        raise AssertionError("stored by a server that does not lead")

    asyncio.run(run())


def test_a_step_that_was_stored_when_the_server_lost_its_lead_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, lead = Agreeing(), [True]
    save = StateDir.save_as_owner

    def lost(self: StateDir, position: Position | None, groups: Mapping[str, Snapshot]) -> None:
        save(self, position, groups)
        lead[0] = position is None or position.rollout.now.step is not StepName.SENDERS

    monkeypatch.setattr(StateDir, "save_as_owner", lost)

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), tmp_path / "state", may_publish=lambda: lead[0])
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: not lead[0])
            before = published(server)
            await asyncio.sleep(0.3)
            assert at(rollout) == "prepare"
            assert published(server) == before
        again = await back(server, tmp_path / "state")
        assert at(again) == "senders"

    asyncio.run(run())
