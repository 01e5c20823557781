"""The state directory with killed servers, full disks, wrong folders, and invalid content."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from admc.serve.files.state_dir import UNDER_WAY
from tests.serve.server_process import served
from tests.serve.small_disk import fill_disk, small_disk
from tests.serve.test_long_compiles import gone
from tests.serve.test_server import ENDPOINTS_FILE, PROGRAM, _children, client, folder, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.serve.server_process import Served

pytestmark = pytest.mark.long

__all__ = ["folder"]

TIER = "tier:set_request_header"
OPTIONS = ("policies.adm", "--endpoints", "endpoints.json", "--state", "state")


def tier(server: Served) -> str:
    """The value that the configuration of `web` writes; empty if it writes none."""
    with client(server.xds, "web") as web:
        content = b"".join(item.value for item in web.filter_of(TIER))
    found = content.partition(b"value-")[2]
    return found[:4].decode("ascii", "replace")


def text(number: int) -> str:
    return PROGRAM.replace("gold", f"value-{number:04}")


def kept(folder: Path) -> set[str]:
    """The services whose acknowledged snapshot is stored."""
    path = folder / "state" / "state.json"
    return set(json.loads(path.read_text())["groups"]) if path.exists() else set()


def test_kills_at_any_moment_of_changes_leave_something_good_and_no_litter(folder: Path) -> None:
    chance = random.Random(7)  # noqa: S311
    number = 0
    write(folder / "policies.adm", text(number))
    for attempt in range(6):
        with served(folder, *OPTIONS) as server:
            if attempt:
                # Before the first compile is done: the stored state of the earlier server.
                server.until(lambda: server.events("recalled") or server.events("compiled"))
                assert server.events("recalled")
                assert not server.events("kept_group_not_used")
                assert server.metric("admc_kept_errors_total") == 0.0
            else:
                server.until_event("compiled")
                server.until((folder / "state" / "state.json").exists)
            deadline = time.monotonic() + chance.uniform(0.0, 0.8)
            while time.monotonic() < deadline:
                number += 1
                write(folder / "policies.adm", text(number))
                more = json.loads(json.dumps(ENDPOINTS_FILE))
                more["services"]["cart"]["pods"].append(f"10.1.2.{number % 250 + 1}")
                write(folder / "endpoints.json", json.dumps(more))
                time.sleep(chance.uniform(0.0, 0.15))
            workers = _children(server.process.pid)
            server.stop(signal.SIGKILL)
            server.log.rename(folder / f"killed{attempt}.log")  # its workers may have a last word
            gone(workers)
    # The half-written file of a killed server, since no test can kill a server at that exact moment.
    (folder / "state" / ".state.json.0123456789ab.tmp").write_text("{")
    (folder / "state" / ".rollout.0123456789ab.tmp").write_text("{")
    (folder / "state" / "objects" / f"{'0' * 64}.1.tmp").write_text("half")
    with served(folder, *OPTIONS) as server:
        server.until_event("compiled")
        server.until(lambda: tier(server) == f"{number:04}")
        assert server.stop() == 0
    manifest = json.loads((folder / "state" / "state.json").read_text())
    named = {item["object"] for item in manifest["groups"].values()}
    named |= {item["object"] for item in manifest["frozen"].values()}
    for plan in manifest["plans"].values():
        named |= {*plan["inputs"].values(), plan["plan"], plan["endpoints"]}
    assert {path.name for path in (folder / "state" / "objects").iterdir()} == named
    # No proxy is connected, so the rollout of the last change waits, and a restarted server continues to wait.
    left = {path.name for path in (folder / "state").iterdir()}
    assert left - {UNDER_WAY, "redirected.json"} == {"lock", "objects", "state.json"}


def test_a_second_server_at_the_folder_ends_with_an_error_and_a_killed_one_releases_it(folder: Path) -> None:
    with served(folder, *OPTIONS) as first:
        first.until_event("compiled")
        command = [sys.executable, "-m", "admc", "serve", *OPTIONS, "--plaintext", "--ops", "127.0.0.1:0"]
        done = subprocess.run([*command, "--xds", "127.0.0.1:0"], cwd=folder, capture_output=True, timeout=60)
        assert done.returncode == 1
        assert b"error[ADM854]: another server keeps its state in `state`" in done.stderr
        assert b"Traceback" not in done.stderr
        assert first.get("/readyz")[0] == 200
        first.stop(signal.SIGKILL)
    with served(folder, *OPTIONS) as second:
        second.until_event("compiled")


def _parts(state: Path) -> None:
    state.mkdir()
    (state / "objects").write_text("")


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "a file": lambda state: state.write_text(""),
    "a link to nothing": lambda state: state.symlink_to("/proc/self/nothing"),
    "its parts are a file": _parts,
    "its lock is a folder": lambda state: (state / "lock").mkdir(parents=True),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_folder_that_cannot_be_one_is_refused_at_the_start(name: str, folder: Path) -> None:
    UNUSABLE[name](folder / "state")
    command = [sys.executable, "-m", "admc", "serve", *OPTIONS, "--plaintext", "--ops", "127.0.0.1:0"]
    done = subprocess.run([*command, "--xds", "127.0.0.1:0"], cwd=folder, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"error[ADM854]: cannot store the state in `state`" in done.stderr
    assert b"Traceback" not in done.stderr


def _newer(state: Path) -> None:
    path = state / "state.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"schema_version": found["schema_version"] + 1}))


def _folder_for_a_file(state: Path) -> None:
    (state / "state.json").unlink()
    (state / "state.json").mkdir()


def _other_app(state: Path) -> None:
    """As if `--state` named the folder of another app that has a service of the same name."""
    write(state.parent / "policies.adm", text(2).replace("app shop", "app other"))


TOUCHED: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut short": (lambda state: os.truncate(state / "state.json", 40), "cannot be used"),
    "newer": (_newer, "cannot be used"),
    "a folder": (_folder_for_a_file, "cannot be used"),
    "no parts": (lambda state: shutil.rmtree(state / "objects"), "cannot be used"),
    "another app": (_other_app, "is that of app `shop`, not of `other`"),
}


@pytest.mark.parametrize("name", TOUCHED)
def test_a_state_that_cannot_be_used_is_reported_and_the_program_is_served(name: str, folder: Path) -> None:
    write(folder / "policies.adm", text(1))
    with served(folder, *OPTIONS) as server:
        server.until((folder / "state" / "state.json").exists)
        assert server.stop() == 0
    spoil, words = TOUCHED[name]
    write(folder / "policies.adm", text(2))
    spoil(folder / "state")
    with served(folder, *OPTIONS) as server:
        server.until_event("compiled")
        assert not server.events("recalled")
        (finding, *_) = server.events("finding")
        assert finding["code"] == "ADM854"
        assert words in finding["text"]
        assert server.metric("admc_kept_errors_total") >= 1.0
        assert tier(server) == "0002"
        if name == "a folder":
            # Nor can it be written: that is reported, too, and ends by itself.
            server.until(lambda: any("cannot store" in item["text"] for item in server.events("finding")))
            assert {item["code"] for item in server.events("finding")} == {"ADM854"}
            assert "cannot store" in server.status()["server"]["why"]
            (folder / "state" / "state.json").rmdir()
        server.until(lambda: server.status()["server"]["why"] == "")
        assert server.stop() == 0
    with served(folder, *OPTIONS) as server:
        server.until_event("recalled")


def test_a_full_disk_is_reported_and_nothing_else_stops(folder: Path) -> None:
    with served(folder, *OPTIONS, before=small_disk(folder / "state")) as server:
        disk = fill_disk(server, folder / "state")
        before = (disk / "state.json").read_bytes()
        more = json.loads(json.dumps(ENDPOINTS_FILE))
        more["services"]["cart"]["pods"].append("10.1.0.77")
        write(folder / "endpoints.json", json.dumps(more))
        server.until_event("located")
        server.until(lambda: any("cannot store" in item["text"] for item in server.events("finding")))
        (finding,) = server.events("finding")
        assert finding["code"] == "ADM854"
        assert "no space left" in finding["text"]
        assert server.metric("admc_kept_errors_total") >= 1.0
        assert (disk / "state.json").read_bytes() == before
        assert not [path for path in (disk, disk / "objects") for path in path.glob("*.tmp")]
        (disk / "ballast").unlink()
        server.until(lambda: server.status()["server"]["why"] == "")
        assert (disk / "state.json").read_bytes() != before
