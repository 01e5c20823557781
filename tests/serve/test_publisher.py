"""What the server reads of proxies, and when: at rest nothing, however many are connected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from admc.serve.publication import controller
from admc.serve.rollout.model import StepName
from tests.serve.always_ack import Agreeing, at, begun, close_all, following, hasten, planned
from xds_server.resources.snapshot import Snapshot, SnapshotError
from xds_server.resources.types import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


class _View:
    """A proxy whose subscriptions are counted when they are read."""

    def __init__(self, view: Any, server: _Counting) -> None:
        self.group, self.node, self.refuses, self.fresh = view.group, view.node, view.refuses, view.fresh
        self.acknowledged = view.acknowledged if server.acknowledges else ""
        self._server = server

    @property
    def unreferenced(self) -> Mapping[str, frozenset[str]]:
        self._server.reads.append(self.group)
        return {ROUTES: self._server.older.get(self.group, frozenset())}


class _Counting(Agreeing):
    def __init__(self) -> None:
        super().__init__()
        self.polls = 0
        self.reads: list[str] = []
        self.acknowledges = True

    def views(self, groups: Iterable[str]) -> tuple[Any, ...]:
        self.polls += 1
        return tuple(_View(each, self) for each in super().views(groups))


@pytest.mark.long
def test_at_rest_no_proxy_is_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "LOOK_SECONDS", 0.01)
    server = _Counting()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), tmp_path / "state")
        async with following(rollout) as until:
            for plan in (None, planned(tmp_path, "ingress"), planned(tmp_path, "ingress", "bronze")):
                if plan is not None:
                    await rollout.accept(plan)
                    assert server.polls
                await until(lambda: not rollout.under_way and rollout.state is not None and not rollout.state.kept)
                await until(lambda: rollout.state is not None and len(rollout.state.may_have) == 1)
                server.polls = 0
                server.reads.clear()
                await asyncio.sleep(0.5)
                assert server.polls == 0
                assert server.reads == []

    asyncio.run(run())


@pytest.mark.long
def test_older_connections_of_a_proxy_count_once_it_has_acknowledged(tmp_path: Path) -> None:
    """Their subscriptions are read in `prepare`, and not before the proxy has what the step publishes."""
    server = _Counting()
    server.older = {"web": frozenset(("egress/cart:8081@older",))}

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: not rollout.under_way)
            server.reads.clear()
            server.store.watchers.append(lambda *_: setattr(server, "acknowledges", False))
            await rollout.accept(planned(tmp_path, "ingress"))
            await until(lambda: at(rollout) == StepName.PREPARE)
            server.store.watchers.clear()
            server.reads.clear()
            await asyncio.sleep(0.3)
            assert server.reads == []
            assert any("have not acknowledged" in each for each in rollout.waits)
            server.acknowledges = True
            await until(lambda: rollout.waits == ("`web`: older connections to be closed",))
            assert "web" in server.reads
            assert at(rollout) == StepName.PREPARE
            server.older = {}
            await until(lambda: not rollout.under_way)

    asyncio.run(run())


@pytest.mark.long
def test_without_redirection_a_refused_step_that_is_taken_back_holds_nothing_up(tmp_path: Path) -> None:
    """The plan before has no ADM at the service, so nothing is published in place of what its proxy refuses."""
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), tmp_path / "state")
        async with following(rollout) as until:
            server.store.watchers.append(
                lambda name, _, new: server.declined.add(new.version) if name == "cart" else None
            )
            await rollout.accept(planned(tmp_path, "ingress"))
            await until(lambda: at(rollout) == StepName.PREPARE)
            await until(lambda: any("`cart`: 1 of 1 proxies refused it" in each for each in rollout.waits))
            server.store.watchers.clear()
            await rollout.abort()
            await until(lambda: rollout.waits == ())
            await rollout.accept(planned(tmp_path, "ingress", "bronze"))
            await until(lambda: at(rollout) == "ingress-bronze.adm" and not rollout.under_way)

    asyncio.run(run())


@pytest.mark.long
def test_a_snapshot_that_cannot_be_published_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Agreeing()
    found = "`cart` refers to what is not there"
    broken: list[str] = []

    def check(snapshot: Snapshot) -> None:
        if broken:
            raise SnapshotError(broken[0])

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), tmp_path / "state")
        async with following(rollout) as until:
            server.older = {"web": frozenset(("egress/cart:8081@1",))}
            await rollout.accept(planned(tmp_path, "ingress"))
            await until(lambda: rollout.waits == ("`web`: older connections to be closed",))
            monkeypatch.setattr(Snapshot, "check", check)
            broken.append(found)
            server.older = {}
            await until(lambda: rollout.waits == (found,))
            assert at(rollout) == StepName.PREPARE
            assert server.failures
            broken.clear()
            await until(lambda: at(rollout) == "ingress-gold.adm" and not rollout.under_way)

    asyncio.run(run())


async def test_a_proxy_that_is_known_by_name_counts_until_it_is_connected(tmp_path: Path) -> None:
    """Another one that is connected does not stand for it: it may be that of a pod that is gone."""
    server = Agreeing()
    rollout = await begun(server, planned(tmp_path, "egress"), None)
    names: dict[str, frozenset[str] | None] = {}
    rollout.publisher._proxies = names.get

    def away() -> list[tuple[str, str]]:
        assert rollout.state is not None
        seen = rollout.publisher.observe(rollout.state, rollout.plans, None, ())
        return [(each.service, each.node) for each in seen.clients if each.is_away]

    assert away() == []
    names["web"] = frozenset({"web", "web-2"})  # the connected one is named as its service
    assert away() == [("web", "web-2")]
    names["web"] = frozenset({"web-2"})
    assert away() == [("web", "web-2")]
    names["web"] = frozenset()
    server.away.add("web")
    assert away() == []
    names["web"] = None
    assert away() == [("web", "")]
