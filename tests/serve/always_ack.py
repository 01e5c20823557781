"""A server whose proxies acknowledge everything, to test the steps of a rollout without proxies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from admc.serve.build import snapshots as groups
from admc.serve.build import source
from admc.serve.build.source import Source
from admc.serve.rollout.controller import Moving
from admc.serve.rollout.underway import Planned
from admc.serve.state_dir import rollout_record
from emitters.envoy import Mode
from xds_server.resources.cache import SnapshotCache

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    import pytest

    from admc.serve.build.snapshots import SnapshotSet
    from admc.serve.build.source import State
    from admc.transition.model import Phase

SECONDS = 60.0
Until = Callable[[Callable[[], bool]], Awaitable[None]]
"""Waits until something holds."""

PROGRAM = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin p at SIDE
"""
PODS = {"web": {"pods": ["10.1.0.2"]}, "cart": {"addresses": ["10.2.0.1"], "pods": ["10.1.0.3"]}}


class Agreeing:
    """A server whose proxies acknowledge every version, except for those that they decline."""

    def __init__(self) -> None:
        self.store = SnapshotCache()
        self.refuses = False
        self.declined: set[str] = set()
        """Versions for which every proxy sends a NACK."""

    @property
    def registry(self) -> Agreeing:
        return self

    def views(self, groups: Iterable[str]) -> tuple[Any, ...]:
        current = {name: self.store.current(name) for name in groups}
        return tuple(
            SimpleNamespace(
                group=name,
                node=SimpleNamespace(id=name),
                acknowledged="" if it.version in self.declined else it.version,
                refuses=self.refuses or it.version in self.declined,
                fresh=False,
            )
            for name, it in current.items()
            if it
        )


def planned(folder: Path, side: str, value: str = "gold") -> Planned:
    text = PROGRAM.replace("SIDE", side).replace("gold", value)
    text = text if side != "none" else "".join(text.splitlines(keepends=True)[:-2])
    return planned_by(folder / f"{side}-{value}.adm", text)


def planned_by(path: Path, text: str, mode: Mode = Mode.EXPLICIT) -> Planned:
    path.write_text(text)
    endpoints = () if mode is Mode.EXPLICIT else (json.dumps({"services": PODS}).encode(),)
    read = source.read(Source(path, mode), endpoints, with_recipe=True)
    assert read.state is not None, read.findings
    return Planned(read.state, read.recipe)


async def begun(server: Agreeing, first: Planned, folder: Path | None) -> Moving:
    async def publish(told: SnapshotSet, state: State, held: frozenset[str] = frozenset()) -> None:
        server.store.publish_all({name: item for name, item in told.by_service.items() if name not in held})

    await publish(groups.snapshots(first.state), first.state)
    return Moving(server, publish, drain_seconds=0.0, folder=folder)  # type: ignore[arg-type]


async def back(moving: Moving, folder: Path, old: Planned, new: Planned) -> Moving:
    """A restarted server that continues the transition of the previous one."""
    kept = rollout_record.read(folder)
    assert kept is not None
    again = Moving(moving._telling._server, moving._publish, drain_seconds=0.0, folder=folder)
    await again.resume(kept, old, new)
    return again


@asynccontextmanager
async def following(moving: Moving) -> AsyncIterator[Until]:
    """Runs the server; the function that it yields waits until a condition holds."""
    task = asyncio.create_task(moving.follow())

    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                assert not task.done()
                await asyncio.sleep(0.02)

    try:
        yield until
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def phase_of(moving: Moving) -> Phase | None:
    return None if moving.underway is None else moving.underway.walk.step.phase


def hasten(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the time that proxies need to apply a step, and to close older connections."""
    monkeypatch.setattr("admc.transition.driver.SETTLE_SECONDS", seconds)
    monkeypatch.setattr("admc.transition.driver.MARGIN_SECONDS", seconds)
