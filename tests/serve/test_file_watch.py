"""Every kind of change of a file is detected, and reported once it is over."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from admc.serve.file_watch import signature, until_changed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _replaced(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text(path.read_text())  # the very same bytes
    new.replace(path)


def _swapped(path: Path) -> None:
    folder = path.parent
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / path.name).write_text("same")
    (folder / "data").symlink_to("one")
    path.unlink()
    path.symlink_to(f"data/{path.name}")


def _swap_again(path: Path) -> None:
    (path.parent / "next").symlink_to("two")
    (path.parent / "next").replace(path.parent / "data")


def _same_size_and_time(path: Path) -> None:
    before = path.stat()
    path.write_text(path.read_text()[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path], object] | None, Callable[[Path], object]]] = {
    "written": (None, lambda path: path.write_text("more and more")),
    "replaced": (None, _replaced),
    "gone": (None, lambda path: path.unlink()),
    "there": (lambda path: path.unlink(), lambda path: path.write_text("here")),
    "a folder": (lambda path: path.unlink(), lambda path: path.mkdir()),
    "a link that is swapped": (_swapped, _swap_again),
    "with its size and time put back": (None, _same_size_and_time),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_noticed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text("text")
    before, change = CHANGES[name]
    if before is not None:
        before(path)
    seen = await signature([path])
    waiting = asyncio.create_task(until_changed(seen))
    await asyncio.sleep(0.25)
    assert not waiting.done()
    change(path)
    await asyncio.wait_for(waiting, 60)


async def test_what_is_still_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.serve.file_watch.QUIET_LIMIT_SECONDS", 600.0)
    path = tmp_path / "policies.adm"
    path.write_text("")
    quiet = 0.3
    waiting = asyncio.create_task(until_changed(await signature([path]), quiet=quiet))
    written: list[tuple[float, float]] = []
    with path.open("a") as file:
        # On a slow machine there may be as much quiet between two lines.
        while len(written) < 20 and not waiting.done():
            began = time.monotonic()
            file.write("more\n")
            file.flush()
            written.append((began, time.monotonic()))
            await asyncio.sleep(0.02)
    await asyncio.wait_for(waiting, 60)
    noticed = time.monotonic()
    pauses = [later - earlier for (earlier, _), (_, later) in pairwise([*written, (noticed, noticed)])]
    assert max(pauses) >= quiet


@pytest.mark.long
async def test_a_file_that_never_is_quiet_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text("")
    waiting = asyncio.create_task(until_changed(await signature([path]), quiet=0.1))
    async with asyncio.timeout(60):
        with path.open("a") as file:
            while not waiting.done():
                file.write("more\n")
                file.flush()
                await asyncio.sleep(0.01)
