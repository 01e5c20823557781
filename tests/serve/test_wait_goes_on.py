"""Pods that come and go while a plan waits for older connections do not begin that wait anew."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from admc.serve.rollout.underway import Planned

from admc.serve.build import snapshots as groups
from admc.serve.build import source
from admc.serve.build.snapshots import SnapshotSet
from admc.serve.build.source import Source
from admc.transition.model import Phase
from emitters.envoy import Mode
from tests.serve.always_ack import PODS, PROGRAM, Agreeing, begun, following, phase_of
from xds_server.resources.types import CLUSTER, LISTENER

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from admc.serve.rollout.controller import Moving


class _Slow(Agreeing):
    """Its proxies have what they are told a while later."""

    def __init__(self) -> None:
        super().__init__()
        self.has: dict[str, str] = {}

    def views(self, groups: Iterable[str]) -> tuple[Any, ...]:
        return tuple(
            SimpleNamespace(**{**vars(each), "acknowledged": self.has.get(each.group, each.acknowledged)})
            for each in super().views(groups)
        )

    def stay(self) -> None:
        """Keep what there is now."""
        current = {name: self.store.current(name) for name in self.store.groups}
        self.has = {name: found.version for name, found in current.items() if found is not None}


def _at(folder: Path, side: str, *cart: str) -> Planned:
    path = folder / f"{side}.adm"
    path.write_text(PROGRAM.replace("SIDE", side))
    services = {**PODS, "cart": {"addresses": ["10.2.0.1"], "pods": cart}}
    read = source.read(Source(path, Mode.REDIRECT), (json.dumps({"services": services}).encode(),), with_recipe=True)
    assert read.state is not None, read.findings
    return Planned(read.state, read.recipe)


def _since(moving: Moving) -> float:
    assert moving.underway is not None
    assert moving.underway.walk.since is not None
    return moving.underway.walk.since


def test_other_addresses_in_the_wait_do_not_begin_it_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.transition.driver.SETTLE_SECONDS", 0.1)
    # Nobody keeps what is redirected, so that nobody is asked for it either.
    old, new = _at(tmp_path, "egress", "10.1.0.3"), _at(tmp_path, "ingress", "10.1.0.3")
    server = _Slow()

    async def run() -> None:
        moving = await begun(server, old, None)
        moving._capturing.there = lambda step: frozenset(step.rests)  # type: ignore[method-assign]
        moving._drain_seconds = 1000.0
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: phase_of(moving) is Phase.PREPARE and moving.underway.walk.since is not None)  # type: ignore[union-attr]
            began = _since(moving)
            for number in range(4, 8):
                server.stay()
                moved = _at(tmp_path, "ingress", f"10.1.0.{number}")
                await moving.relocate(moved, groups.snapshots(moved.state))
                await until(lambda: any("have not acknowledged" in each for each in moving.waits))
                assert _since(moving) == began
                server.has = {}
                await until(lambda: "connections that are older to be closed" in moving.waits)
                assert _since(moving) == began
            # Whoever has something that was not published for this step may have older connections.
            server.has = {"web": "before"}
            await until(lambda: moving.underway.walk.since is None)  # type: ignore[union-attr]
            server.has = {}
            await until(lambda: "connections that are older to be closed" in moving.waits)
            assert _since(moving) > began

    asyncio.run(run())


def test_what_a_server_published_for_a_step_before_it_was_started_again_is_not_known(tmp_path: Path) -> None:
    old, new = _at(tmp_path, "egress", "10.1.0.3"), _at(tmp_path, "ingress", "10.1.0.3")
    server = _Slow()

    async def run() -> None:
        moving = await begun(server, old, None)
        await moving.change(old, new, groups.snapshots(new.state))
        underway = moving.underway
        assert underway is not None
        first = moving._telling.sight(underway).same
        moved = _at(tmp_path, "ingress", "10.1.0.4")
        await moving.relocate(moved, SnapshotSet({}, None))
        assert moving.underway is not None
        both = moving._telling.sight(moving.underway).same
        assert all(first[name] <= both[name] for name in first)
        assert any(len(versions) == 2 for versions in both.values())
        again = await begun(server, old, None)
        again.underway = moving.underway
        assert again._telling.sight(moving.underway).same == {}

    asyncio.run(run())


def test_a_listener_of_earlier_addresses_refers_to_nothing_that_other_addresses_take_away(tmp_path: Path) -> None:
    """Connections live on in it for as long as a drain lasts, and nothing is kept for them once a plan is in force."""
    seen = 0
    places = [("10.1.0.3",), ("10.1.0.4", "10.1.0.5"), ("fd00::3",), ("10.1.0.9",), ()]
    for side in ("egress", "ingress"):
        told = [groups.snapshots(_at(tmp_path, side, *pods).state).by_service for pods in places]
        for before in told:
            for after in told:
                for service, snapshot in before.items():
                    there = after[service]
                    for listener in snapshot.of_type(LISTENER).resources.values():
                        for needed in listener.references:
                            known = needed.name in there.of_type(needed.type_url).resources
                            assert known or (needed.type_url == CLUSTER and needed.name in there.elsewhere), needed
                            seen += after is not before
    assert seen > 20
