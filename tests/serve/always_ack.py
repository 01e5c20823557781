"""A server whose proxies agree to everything, so that what it moves and when can be seen without any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from admc.serve.compiling import snapshots as groups
from admc.serve.compiling import source
from admc.serve.compiling.source import Source
from admc.serve.files.redirection import Redirection
from admc.serve.files.state_dir import open_state_dir
from admc.serve.publication.controller import Rollout
from admc.serve.publication.plans import Planned
from emitters.envoy import Mode
from xds_server.protocol.wire import ClientNode
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import ROUTES
from xds_server.transport.client_registry import ClientView

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import pytest

    from admc.serve.files.state_dir import StateDir
    from admc.serve.storage.position import Position, Recipe

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


OPENED: list[StateDir] = []


def close_all() -> None:
    """Close the folders that servers of a test had open."""
    while OPENED:
        OPENED.pop().close()


class Agreeing:
    """A server each of whose proxies has acknowledged all that there is, but for what they decline."""

    def __init__(self) -> None:
        self.store = SnapshotCache()
        self.refuses = False
        self.declined: set[str] = set()
        """Versions that no proxy takes."""
        self.older: dict[str, frozenset[str]] = {}
        """Service -> names that its older connections subscribe to."""
        self.away: set[str] = set()
        self.explicit = True
        self.kept: StateDir | None = None
        self.failures: list[str] = []

    @property
    def registry(self) -> Agreeing:
        return self

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self.store.groups) - self.away

    def views(self, groups: Iterable[str]) -> tuple[ClientView, ...]:
        current = {name: self.store.current(name) for name in groups}
        return tuple(
            ClientView(
                name,
                ClientNode(name, name, "envoy"),
                acknowledged="" if it.version in self.declined else it.version,
                refuses=self.refuses or it.version in self.declined,
                fresh=False,
                stream=self._stream(name),
            )
            for name, it in current.items()
            if it and name not in self.away
        )

    def _stream(self, service: str) -> Any:
        """Names the chains of older connections, and no version of what they use."""
        older = {ROUTES: self.older.get(service, frozenset())}
        return SimpleNamespace(unreferenced=older, held_version=lambda type_url, name: None)


def planned(folder: Path, side: str, value: str = "gold") -> Planned:
    text = PROGRAM.replace("SIDE", side).replace("gold", value)
    text = text if side != "none" else "".join(text.splitlines(keepends=True)[:-2])
    return planned_by(folder / f"{side}-{value}.adm", text)


def planned_by(path: Path, text: str, mode: Mode = Mode.EXPLICIT) -> Planned:
    path.write_text(text)
    endpoints = () if mode is Mode.EXPLICIT else (json.dumps({"services": PODS}).encode(),)
    read = source.read(Source(path, mode), endpoints, with_recipe=True)
    assert read.state is not None, read.findings
    return Planned(read.state, read.recipe, groups.snapshots(read.state))


async def begun(
    server: Agreeing, first: Planned, folder: Path | None, *, explicit: bool | None = None, **outside: Any
) -> Rollout:
    """A server that serves its first plan. `explicit`: whether nothing is redirected; else the plan says so."""
    server.explicit = first.state.source.mode is Mode.EXPLICIT if explicit is None else explicit
    rollout = made(server, folder, **outside)
    await rollout.accept(first)
    return rollout


def made(server: Agreeing, folder: Path | None, **outside: Any) -> Rollout:
    kept = server.kept = None if folder is None else open_state_dir(folder)
    OPENED.extend(() if kept is None else (kept,))

    async def store(position: Position | None) -> None:
        if kept is not None:
            await asyncio.to_thread(kept.save_as_owner, position, {})

    redirection = Redirection(folder, explicit=server.explicit)
    failed = lambda: server.failures.append("")  # noqa: E731
    return Rollout(server, store, redirection, failed, **outside)  # type: ignore[arg-type]


async def back(server: Agreeing, folder: Path, **outside: Any) -> Rollout:
    """Another server process, with what the one before kept."""
    if server.kept is not None:
        server.kept.close()
    with closing(open_state_dir(folder)) as kept:
        found = kept.load()
    assert found is not None
    assert found.position is not None
    again = made(server, folder, **outside)
    plans = {name: _again(recipe) for name, recipe in found.position.plans.items()}
    assert all(plan.digest == name for name, plan in plans.items())
    await again.resume(found.position, plans)
    return again


def _again(recipe: Recipe) -> Planned:
    return Planned(source.restored(Source(Path(recipe.main), Mode(recipe.mode)), recipe), recipe)


@asynccontextmanager
async def following(moving: Rollout) -> AsyncIterator[Until]:
    """While it goes on by itself; what is given waits until something holds."""
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


def at(rollout: Rollout) -> str:
    """The step that is published, or the plan at rest."""
    assert rollout.state is not None
    now = rollout.state.now
    return rollout.plans[now.base].state.program.inputs[0].path if now.step is None else now.step.value


def hasten(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.05) -> None:
    """Let workers follow in so much time."""
    monkeypatch.setattr("admc.serve.publication.publisher.SETTLE_SECONDS", seconds)
