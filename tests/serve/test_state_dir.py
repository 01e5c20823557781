"""The stored state is read back unchanged, survives every kill, and is rejected if it was changed from outside."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2

from admc.base.exits import CommandError, Exit
from admc.serve.files.state_dir import StateDir, open_state_dir
from admc.serve.rollout.reducer import Command, CommandName, Observation, reduce
from admc.serve.rollout.rollout_state import begun
from admc.serve.storage.position import Position, Recipe, StoredState
from admc.testbed.envoys import LAUNCHER
from xds_server.resources.snapshot import Resource, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

RECIPE = Recipe("policies.adm", "redirect", {"policies.adm": b"app shop\n"}, b"{}", b'{"services": {}}')
POSITION = Position(begun("plan", bytes(32)), {"plan": RECIPE}, {})


def recall(folder: Path) -> StoredState:
    with closing(open_state_dir(folder)) as kept:
        found = kept.load()
    assert found is not None
    return found


def snapshot(*names: str) -> Snapshot:
    return Snapshot.of(Resource.of(cluster_pb2.Cluster(name=name)) for name in names)


def test_the_stored_state_is_read_back(tmp_path: Path) -> None:
    endpoints = Resource.of(endpoint_pb2.ClusterLoadAssignment(cluster_name="own"))
    groups = {"a": snapshot("x", "y"), "b": Snapshot.of([endpoints], elsewhere=["own"])}
    kept = open_state_dir(tmp_path / "state")
    assert kept.load() is None
    assert kept.save(POSITION, groups)
    assert not kept.save(POSITION, groups)
    kept.close()

    again = open_state_dir(tmp_path / "state")
    found = again.load()
    assert found is not None
    assert found.position == POSITION
    assert found.problems == ()
    assert {name: item.version for name, item in found.groups.items()} == {
        name: item.version for name, item in groups.items()
    }
    assert found.groups["b"].elsewhere == {"own"}
    # Nothing has changed, and without a position the stored one stays.
    assert not again.save(None, groups)
    assert again.save(None, {"a": snapshot("z")})
    again.close()
    last = recall(tmp_path / "state")
    assert last.position == POSITION
    assert list(last.groups) == ["a"]
    # One snapshot, and the recipe's three parts.
    assert len(list((tmp_path / "state" / "objects").iterdir())) == 4


def test_plans_that_are_larger_together_than_the_bound_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_state_dir(tmp_path / "state")) as kept:
        kept.save(POSITION, {})
    monkeypatch.setattr("admc.serve.storage.contents.MAX_TOTAL", 10)
    with pytest.raises(CommandError) as caught:
        recall(tmp_path / "state")
    assert caught.value.diagnostics[0].cause == "its plans have more than 0 GB"


def test_objects_that_a_killed_server_left_are_removed_though_nothing_is_new(tmp_path: Path) -> None:
    objects, groups = tmp_path / "state" / "objects", {"a": snapshot("x")}
    with closing(open_state_dir(tmp_path / "state")) as kept:
        kept.save(POSITION, groups)
    left = objects / ("0" * 64)
    left.write_bytes(b"written before the manifest that would name it")
    with closing(open_state_dir(tmp_path / "state")) as kept:
        kept.load()
        assert not kept.save(POSITION, groups)
        assert not left.exists()
    assert recall(tmp_path / "state").position == POSITION


@pytest.mark.parametrize("left", ["objects/0", "rollout"])
def test_a_clean_up_that_fails_has_another_message_than_a_write_that_fails(tmp_path: Path, left: str) -> None:
    folder = tmp_path / "state"
    with closing(open_state_dir(folder)) as kept:
        (folder / left).mkdir()  # it cannot be removed as a file
        with pytest.raises(CommandError, match="cannot remove what the state in") as caught:
            kept.save(POSITION, {})
        hint = caught.value.diagnostics[0].hint
        assert hint is not None
        assert "unchanged" not in hint
    assert recall(folder).position == POSITION


@pytest.mark.parametrize("kept_before", [True, False])
def test_a_folder_that_goes_is_noticed_by_a_server_that_has_written_nothing(tmp_path: Path, kept_before: bool) -> None:
    folder, groups = tmp_path / "state", {"a": snapshot("x")}
    if kept_before:
        with closing(open_state_dir(folder)) as kept:
            kept.save(POSITION, groups)
    with closing(open_state_dir(folder)) as again:
        assert (again.load() is not None) is kept_before
        if kept_before:
            assert not again.save(POSITION, groups)
        assert not again.renew()
        shutil.rmtree(folder)
        assert again.renew()
        assert again.save(POSITION, groups)
    assert recall(folder).position == POSITION


@pytest.mark.parametrize("gone", ["objects", "state.json", "lock"])
def test_a_part_of_the_folder_that_goes_is_there_again_at_once(gone: str, tmp_path: Path) -> None:
    folder, groups = tmp_path / "state", {"a": snapshot("x")}
    with closing(open_state_dir(folder)) as kept:
        kept.save(POSITION, groups)
        shutil.rmtree(folder / gone) if gone == "objects" else (folder / gone).unlink()
        assert kept.renew()
        assert kept.save(POSITION, groups)
        with pytest.raises(CommandError, match="another server keeps its state"):
            open_state_dir(folder)
    assert recall(folder).position == POSITION


@pytest.mark.parametrize("gone", ["", "objects"])
def test_what_goes_while_a_server_writes_is_there_again(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    clean = StateDir._remove_unused_objects

    def without(kept: StateDir) -> None:
        shutil.rmtree(folder / gone)
        clean(kept)

    with closing(open_state_dir(folder)) as kept:
        kept.load()
        with monkeypatch.context() as patched:
            patched.setattr(StateDir, "_remove_unused_objects", without)
            with pytest.raises(CommandError):
                kept.save(POSITION, {})
        assert kept.renew()
        assert kept.save(POSITION, {})
        assert not kept.renew()
    assert recall(folder).position == POSITION


FROM_OUTSIDE: dict[str, Callable[[Path], object]] = {
    "the manifest is removed": lambda folder: (folder / "state.json").unlink(),
    "the manifest is replaced": lambda folder: (folder / "state.json").write_text("{}"),
    "the manifest becomes longer": lambda folder: (folder / "state.json").write_text("{}" * 10_000),
    "an object is removed": lambda folder: min((folder / "objects").iterdir()).unlink(),
    "the objects are replaced": lambda folder: (shutil.rmtree(folder / "objects"), (folder / "objects").mkdir()),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("change", FROM_OUTSIDE)
def test_a_change_while_the_server_looks_at_what_it_has_written_is_noticed(
    change: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one before the stats are taken with which the files are compared later."""
    folder, groups, stats = tmp_path / "state", {"a": snapshot("x")}, StateDir._stats

    def changed(kept: StateDir) -> object:
        if moment == "before":
            FROM_OUTSIDE[change](folder)
        taken = stats(kept)
        if moment == "after":
            FROM_OUTSIDE[change](folder)
        return taken

    with closing(open_state_dir(folder)) as kept:
        with monkeypatch.context() as patches:
            patches.setattr(StateDir, "_stats", changed)
            assert kept.save(POSITION, groups)
        assert kept.renew()
        assert kept.save(POSITION, groups)
        assert not kept.renew()
    assert recall(folder).position == POSITION


@pytest.mark.parametrize("fails", [False, True])
def test_an_object_that_goes_before_a_server_writes_others_is_there_again(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder, groups = tmp_path / "state", {"a": snapshot("y")}
    with closing(open_state_dir(folder)) as kept:
        kept.save(POSITION, {"a": snapshot("x")})
        (folder / "objects" / hashlib.sha256(RECIPE.plan).hexdigest()).unlink()
        if fails:
            with monkeypatch.context() as patches:
                patches.setattr(Path, "write_bytes", full)
                with pytest.raises(CommandError, match="cannot store the state"):
                    kept.save(POSITION, groups)
        else:
            assert kept.save(POSITION, groups)
        assert kept.renew()
        assert kept.save(POSITION, groups)
        assert not kept.renew()
    assert recall(folder).position == POSITION


def test_a_full_disk_is_no_change_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with closing(open_state_dir(tmp_path)) as kept:
        kept.save(POSITION, {"a": snapshot("x")})
        with monkeypatch.context() as patches:
            patches.setattr(Path, "write_bytes", full)
            for _ in range(2):
                with pytest.raises(CommandError, match="cannot store the state"):
                    kept.save(POSITION, {"a": snapshot("y")})
                assert not kept.renew()
        # It does not hide such a change either.
        (tmp_path / "state.json").unlink()
        assert kept.renew()
        assert kept.save(POSITION, {"a": snapshot("y")})


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    kept = open_state_dir(tmp_path)
    with pytest.raises(CommandError) as caught:
        open_state_dir(tmp_path)
    assert caught.value.diagnostics[0].code == "ADM854"
    kept.close()
    open_state_dir(tmp_path).close()


def _change(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    path = folder / "state.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut short": (lambda f: os.truncate(f / "state.json", 40), "cut short"),
    "newer": (lambda f: _change(f, lambda c: c.update(schema_version=4)), "schema version 4"),
    "no version": (lambda f: _change(f, lambda c: c.pop("schema_version")), "lacks `schema_version`"),
    "a list": (lambda f: (f / "state.json").write_text("[]"), "not a JSON object"),
    "deep": (lambda f: (f / "state.json").write_text('{"groups": ' + "[" * 200_000), "too deeply"),
    "binary": (lambda f: (f / "state.json").write_bytes(b"\xff\xfe\0"), "not UTF-8"),
    "another field": (lambda f: _change(f, lambda c: c.update(more=1)), "unknown field"),
    "a path for a digest": (
        lambda f: _change(f, lambda c: c["groups"]["a"].update(object="../../../etc/passwd")),  # type: ignore[index]
        "not named by a digest",
    ),
    "no plan": (lambda f: _change(f, lambda c: c["plans"].clear()), "lacks the plan `plan`"),  # type: ignore[attr-defined]
    "an input that was changed": (
        lambda f: [p.write_bytes(b"app mine\n") for p in (f / "objects").iterdir() if p.read_bytes() == b"app shop\n"],
        "not what admc stored",
    ),
    "an input that is gone": (
        lambda f: [p.unlink() for p in (f / "objects").iterdir() if p.read_bytes() == b"app shop\n"],
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_changed_state_is_rejected_with_the_reason(name: str, tmp_path: Path) -> None:
    kept = open_state_dir(tmp_path)
    kept.save(POSITION, {"a": snapshot("x")})
    kept.close()
    spoil, words = BROKEN[name]
    spoil(tmp_path)
    with closing(open_state_dir(tmp_path)) as again:
        with pytest.raises(CommandError) as caught:
            again.load()
        (finding,) = caught.value.diagnostics
        assert finding.code == "ADM854"
        assert words in (finding.cause or "")
        # The next save writes a correct state.
        assert again.save(POSITION, {"a": snapshot("y")})
    assert recall(tmp_path).position == POSITION


def test_a_changed_snapshot_affects_only_its_own_service(tmp_path: Path) -> None:
    kept = open_state_dir(tmp_path)
    kept.save(POSITION, {"a": snapshot("x"), "b": snapshot("y")})
    kept.close()
    groups = json.loads((tmp_path / "state.json").read_text())["groups"]
    (tmp_path / "objects" / groups["a"]["object"]).write_bytes(b"\xff" * 100)
    found = recall(tmp_path)
    assert list(found.groups) == ["b"]
    assert found.problems == ("`a`: a part of it is not what admc stored",)


WRITER = """
import sys
from pathlib import Path
from tests.serve.test_state_dir import POSITION, RECIPE, snapshot
from admc.serve.files.state_dir import open_state_dir
kept = open_state_dir(Path(sys.argv[1]))
for number in range(1_000_000):
    recipe = RECIPE._replace(endpoints=str(number).encode())
    kept.save(POSITION._replace(plans={"plan": recipe}), {f"group{n}": snapshot(f"cluster{number}") for n in range(5)})
    if number == 0:
        print("begun", flush=True)
"""


def _until_written(path: Path, times: int) -> None:
    """Wait until a file has been replaced so often, on any disk."""
    seen = path.stat()
    deadline = time.monotonic() + 60
    while times > 0:
        assert time.monotonic() < deadline
        found = path.stat()
        if (found.st_ino, found.st_mtime_ns) != (seen.st_ino, seen.st_mtime_ns):
            seen, times = found, times - 1
        time.sleep(0.0002)


@pytest.mark.long
def test_it_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    """Whenever the writer is killed, the stored state is consistent."""
    numbers = set()
    for attempt in range(6):
        command = [sys.executable, str(LAUNCHER), str(os.getpid()), sys.executable, "-c", WRITER, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        _until_written(tmp_path / "state.json", attempt)
        time.sleep(attempt * 0.007)  # a moment of no meaning, and another each time
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = recall(tmp_path)
        assert found.position is not None
        endpoints = found.position.plans["plan"].endpoints
        assert endpoints is not None
        assert found.problems == ()
        number = int(endpoints)
        numbers.add(number)
        assert {item.version for item in found.groups.values()} == {snapshot(f"cluster{number}").version}
        assert len(found.groups) == 5
    assert max(numbers) >= 5  # not all of them died at the same place


def test_the_manifest_is_for_the_owner_alone_wherever_it_is_stored(tmp_path: Path) -> None:
    """The file has the secret of the markers, and other users may be able to read the folder."""
    path = tmp_path / "state.json"
    path.touch(0o644)
    with closing(open_state_dir(tmp_path)) as kept:
        kept.save(POSITION, {})
        assert path.stat().st_mode & 0o777 == 0o600
    assert recall(tmp_path).position == POSITION


def test_a_manifest_with_errors_is_not_replaced_in_the_middle_of_a_rollout(tmp_path: Path) -> None:
    state = reduce(begun("old", bytes(32)), Observation((), (), moved, moved), Command(CommandName.PLAN, "new"))
    state = reduce(state, Observation((), (), moved, moved))
    assert state.now.goal == "new"
    with closing(open_state_dir(tmp_path)) as kept:
        kept.save(Position(state, dict.fromkeys(("old", "new"), RECIPE), {"a": snapshot("x")}), {})
        assert not kept.may_begin_anew
    with closing(open_state_dir(tmp_path)) as kept:
        found = kept.load()
        assert found is not None
        assert found.position is not None
        assert found.position.rollout == state
        assert found.position.frozen["a"].version == snapshot("x").version
    (tmp_path / "state.json").write_text("{")
    with closing(open_state_dir(tmp_path)) as kept:
        with pytest.raises(CommandError) as caught:
            kept.load()
        assert "more than one plan" in (caught.value.diagnostics[0].hint or "")
        assert not kept.may_begin_anew


def moved(old: str, new: str) -> frozenset[str]:
    return frozenset(("a",)) if old != new else frozenset()


OLD = '{"schema_version": 1, "state": null, "groups": {}}\n'
"""A manifest of a version that is no longer read."""


def test_a_folder_of_an_old_version_is_rejected_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(OLD)
    with closing(open_state_dir(tmp_path)) as kept:
        with pytest.raises(CommandError) as caught:
            kept.load()
        (finding,) = caught.value.diagnostics
        assert (finding.code, finding.cause) == ("ADM854", "it has schema version 1, and this admc reads 2 and 3")
        assert "let an earlier release store it again, or remove the folder once" in (finding.hint or "")
        assert not kept.may_begin_anew


def test_a_server_does_not_start_with_a_folder_of_an_old_version(tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text("app shop\nservice web { http 80 }\n")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text(OLD)
    options = ("policies.adm", "--plaintext", "--xds", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--state", "state")
    command = (sys.executable, "-m", "admc", "serve", *options)
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == Exit.INPUT
    assert "ADM854" in ended.stderr
    assert "let an earlier release store it again" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "state" / "state.json").read_text() == OLD
    assert not (tmp_path / "state" / "rollout").exists()


def test_nothing_is_stored_in_the_folder_of_another_server(tmp_path: Path) -> None:
    folder, groups = tmp_path / "state", {"a": snapshot("x")}
    with closing(open_state_dir(folder)) as kept:
        kept.save_as_owner(POSITION, groups)
        found = kept.load()
        assert found is not None
        assert (found.position, found.groups.keys()) == (POSITION, groups.keys())
        folder.rename(tmp_path / "away")
        with pytest.raises(CommandError, match="cannot store the state"):
            kept.save_as_owner(None, groups)
        with closing(open_state_dir(folder)) as another:
            with pytest.raises(CommandError, match="cannot store the state"):
                kept.save_as_owner(POSITION, {})
            assert another.load() is None
