"""A step that cannot be taken is taken later, and no other in its place."""

from __future__ import annotations

import asyncio
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from admc.serve import feed, groups
from admc.serve.feed import Source
from admc.serve.moving import Moving, Planned
from admc.transition.model import Phase
from emitters.envoy import Mode
from xds_server.store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from admc.serve.feed import State
    from admc.serve.groups import Groups

PROGRAM = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin p at SIDE
"""


class _Agreeing:
    """A server each of whose proxies has acknowledged all that there is."""

    def __init__(self) -> None:
        self.store = SnapshotStore()

    @property
    def audience(self) -> _Agreeing:
        return self

    def seen(self, groups: Iterable[str]) -> tuple[Any, ...]:
        current = {name: self.store.current(name) for name in groups}
        return tuple(
            SimpleNamespace(group=name, node=SimpleNamespace(id=name), acknowledged=it.version)
            for name, it in current.items()
            if it
        )


def _planned(folder: Path, side: str) -> Planned:
    path = folder / f"{side}.adm"
    path.write_text(PROGRAM.replace("SIDE", side))
    read = feed.read(Source(path, Mode.EXPLICIT), (), keep=True)
    assert read.state is not None
    return Planned(read.state, read.recipe)


def test_a_step_that_cannot_be_kept_is_not_taken_until_it_can(tmp_path: Path) -> None:
    old, new = _planned(tmp_path, "ingress"), _planned(tmp_path, "egress")
    server = _Agreeing()
    failures: list[str] = []
    folder = tmp_path / "state"
    folder.mkdir()

    async def publish(told: Groups, state: State, held: frozenset[str] = frozenset()) -> None:
        server.store.publish_all({name: item for name, item in told.adms.items() if name not in held})

    async def until(moving: Moving, phase: Phase) -> None:
        async with asyncio.timeout(30):
            while moving.underway is None or moving.underway.walk.step.phase is not phase:
                await asyncio.sleep(0.05)

    async def run() -> None:
        await publish(groups.snapshots(old.state), old.state)
        moving = Moving(
            server,  # type: ignore[arg-type]
            publish,
            drain_seconds=0.0,
            folder=folder,
            failed=lambda: failures.append(""),
        )
        await moving.change(old, new, groups.snapshots(new.state))
        following = asyncio.create_task(moving.follow())
        try:
            await until(moving, Phase.PREPARE)
            async with asyncio.timeout(30):
                while "web" not in server.store.groups:
                    await asyncio.sleep(0.05)
            before = {name: server.store.current(name) for name in server.store.groups}
            shutil.rmtree(folder)
            async with asyncio.timeout(30):
                while not any("cannot write" in item for item in moving.waits):
                    assert not following.done()
                    await asyncio.sleep(0.05)
            assert moving.underway is not None
            assert moving.underway.walk.step.phase is Phase.PREPARE
            assert failures
            assert moving.said.startswith("`p` changes sides: step `prepare` waits for cannot write `")
            assert {name: server.store.current(name) for name in server.store.groups} == before
            folder.mkdir()
            await until(moving, Phase.SENDERS)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    asyncio.run(run())
