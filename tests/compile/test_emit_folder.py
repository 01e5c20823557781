"""`--emit` replaces and removes what admc wrote, and nothing else, wherever an earlier emit was cut off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admc.__main__ import main
from admc.base.exits import CommandError, Exit
from admc.compile.emit import folder as emit_folder
from admc.compile.emit.folder import MANIFEST, write_folder
from dsl.diagnostics.diagnostic import Diagnostic
from tests.cli.programs import SHOP, write

ROOT = Path(__file__).parents[2]


def refused(folder: Path, files: dict[str, bytes], inputs: tuple[Path, ...] = ()) -> Diagnostic:
    with pytest.raises(CommandError) as error:
        write_folder(folder, files, inputs)
    assert error.value.exit_code is Exit.INPUT
    (found,) = error.value.diagnostics
    return found


def held(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "network-policies.yaml").write_bytes(b"of the user")
    found = refused(tmp_path, {"a/x.yaml": b"1", "network-policies.yaml": b"2"})
    assert found.code == "ADM816"
    assert "`network-policies.yaml`" in found.message
    assert found.cause == "admc did not write `network-policies.yaml`"
    assert "`--force`" in (found.hint or "")
    assert held(tmp_path) == {"network-policies.yaml": b"of the user"}
    assert not (tmp_path / MANIFEST).exists()
    write_folder(tmp_path, {"a/x.yaml": b"1", "network-policies.yaml": b"2"}, (), force=True)
    assert held(tmp_path) == {"a/x.yaml": b"1", "network-policies.yaml": b"2"}


def test_a_file_edited_by_hand_is_not_overwritten(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": b"1", "b": b"1"}, ())
    (tmp_path / "a").write_bytes(b"edited")
    found = refused(tmp_path, {"a": b"2", "b": b"2"})
    assert found.cause == "`a` was changed since admc wrote it"
    assert held(tmp_path) == {"a": b"edited", "b": b"1"}
    # A file that has the bytes already is no conflict, whatever program wrote it.
    (tmp_path / "a").write_bytes(b"2")
    assert write_folder(tmp_path, {"a": b"2", "b": b"2"}, ()).written == 1


def test_an_emit_that_changes_nothing_still_refuses_an_edited_file(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": b"1"}, ())
    (tmp_path / "a").write_bytes(b"edited")
    assert refused(tmp_path, {"a": b"1"}).code == "ADM816"


def test_both_causes_are_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    files = {f"s{number:02}/bootstrap.yaml": b"1" for number in range(30)}
    write_folder(tmp_path, {"s00/bootstrap.yaml": b"0"}, ())
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = refused(tmp_path, files)
    assert "30 files" in found.message
    assert "and 20 more" in found.message
    assert found.cause == (
        "`s00/bootstrap.yaml` was changed since admc wrote it; admc did not write `s01/bootstrap.yaml` and 28 more"
    )


def test_an_edited_file_that_is_no_longer_wanted_stays_until_forced(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/x.yaml": b"1"}, ())
    (tmp_path / "a" / "x.yaml").write_bytes(b"edited")
    for _ in range(2):  # it is stale configuration: each emit says so
        assert [item.code for item in write_folder(tmp_path, {"b": b"2"}, ()).warnings] == ["ADM810"]
    assert held(tmp_path) == {"a/x.yaml": b"edited", "b": b"2"}
    emitted = write_folder(tmp_path, {"b": b"2"}, (), force=True)
    assert (emitted.removed, emitted.warnings) == (1, ())
    assert held(tmp_path) == {"b": b"2"}
    assert not (tmp_path / "a").exists()


def test_what_never_was_of_admc_is_not_removed_by_force(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/x.yaml": b"1"}, ())
    (tmp_path / "a" / "mine").write_bytes(b"mine")
    write_folder(tmp_path, {"b": b"2"}, (), force=True)
    assert held(tmp_path) == {"a/mine": b"mine", "b": b"2"}


class CutError(Exception):
    pass


@pytest.mark.parametrize("again", [{"a": b"3", "b": b"3", "d": b"3"}, {"a": b"2", "b": b"2", "c": b"2"}, {"d": b"1"}])
@pytest.mark.parametrize("cuts", [1, pytest.param(2, marks=pytest.mark.long)])
def test_an_emit_that_was_cut_off_anywhere_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: dict[str, bytes], cuts: int
) -> None:
    """Cut before the nth change on disk, for every n: what is there is old or new, and none of it is of the user."""
    finished = False
    for at in range(20):
        folder = tmp_path / str(at)
        write_folder(folder, {"a": b"1", "b": b"1", "gone": b"1"}, ())
        for number in range(cuts):
            left = at

            def spend() -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise CutError

            def first_spend(real: Callable[..., Any]) -> Callable[..., Any]:
                def spending(*arguments: Any, **named: Any) -> Any:
                    spend()
                    return real(*arguments, **named)

                return spending

            with monkeypatch.context() as patched:
                patched.setattr(emit_folder, "write_whole", first_spend(emit_folder.write_whole))
                patched.setattr(Path, "unlink", first_spend(Path.unlink))
                try:
                    content = str(2 + 7 * number).encode()
                    write_folder(folder, {"a": content, "b": content, "c": content}, ())
                    finished = True
                except CutError:
                    pass
        assert write_folder(folder, again, ()).warnings == ()
        assert held(folder) == again
        assert set(json.loads((folder / MANIFEST).read_text())["files"]) == set(again)
    assert finished


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_temporary_file_of_a_process_that_was_killed_goes(tmp_path: Path, cut_off: bool) -> None:
    write_folder(tmp_path, {"a/x.yaml": b"1"}, ())
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert "under_way" not in manifest
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, "under_way": cut_off}))
    left = f"a/.x.yaml.{'0' * 12}.tmp"
    (tmp_path / f".{MANIFEST}.{'a' * 12}.tmp").write_bytes(b"half")
    others = [f"a/.y.yaml.{'0' * 12}.tmp", "a/.x.yaml.tmp", f"a/x.yaml.{'0' * 12}.tmp", f"b/.x.yaml.{'0' * 12}.tmp"]
    (tmp_path / "b").mkdir()
    for name in (left, *others):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "a" / f".x.yaml.{'1' * 12}.tmp").symlink_to("x.yaml")
    write_folder(tmp_path, {"a/x.yaml": b"1"}, ())
    assert all((tmp_path / name).exists() for name in others)
    assert (tmp_path / left).exists() is not cut_off
    assert not (tmp_path / f".{MANIFEST}.{'a' * 12}.tmp").exists()
    assert (tmp_path / "a" / f".x.yaml.{'1' * 12}.tmp").is_symlink()
    assert "under_way" not in (tmp_path / MANIFEST).read_text()


@pytest.mark.long
def test_a_process_that_is_killed_anywhere_leaves_what_the_next_emit_completes(tmp_path: Path) -> None:
    """A real process and a real signal, at the nth file that it puts on disk."""
    program = write(tmp_path, SHOP)
    killing = (
        "import os, signal, sys\nfrom admc.base import files\nleft = int(sys.argv.pop(1))\nreal = os.fsync\n"
        "def counted(fd):\n    global left\n    left -= 1\n    real(fd)\n"
        "    if left < 0:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.os.fsync = counted\nfrom admc.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    out = tmp_path / "out"
    for at in range(4):
        write_folder(out, {"search/bootstrap.yaml": b"an earlier one", "old/x.yaml": b"1"}, (), force=True)
        done = subprocess.run(
            [sys.executable, "-c", killing, str(at), "compile", str(program), "--emit", str(out)],
            cwd=ROOT,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == -9
        assert list(out.rglob("*.tmp")) or at % 2  # the folder itself is synced after each file
        assert main(["compile", str(program), "--emit", str(out)]) == 0
        assert sorted(held(out)) == ["network-policies.yaml", "search/bootstrap-xds.yaml", "search/bootstrap.yaml"]


@pytest.mark.parametrize("manifest", [None, b"", b"{}", b"[]", b'{"files": {"a": 3}}', b"[" * 100_000, b'{"fil'])
def test_without_a_manifest_only_equal_files_are_no_conflict(tmp_path: Path, manifest: bytes | None) -> None:
    write_folder(tmp_path, {"a": b"1", "b": b"1"}, ())
    if manifest is None:
        (tmp_path / MANIFEST).unlink()
    else:
        (tmp_path / MANIFEST).write_bytes(manifest)
    assert "`b`" in refused(tmp_path, {"a": b"1", "b": b"2"}).message
    assert write_folder(tmp_path, {"a": b"1", "b": b"1"}, ()).written == 0


def test_a_manifest_of_the_first_release_is_read(tmp_path: Path) -> None:
    from hashlib import sha256

    (tmp_path / "a").write_bytes(b"1")
    document = {"written_by": "admc", "files": {"a": sha256(b"1").hexdigest()}}
    (tmp_path / MANIFEST).write_text(json.dumps(document))
    assert write_folder(tmp_path, {"a": b"2"}, ()).written == 1


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc/hostname",
        "link/secret",
        "",
        ".",
        ".git/config",
        "a/.hidden",
        "a/../../secret",
        "a\0b",
        "x" * 9000,
    ],
)
def test_a_manifest_names_nothing_outside_and_nothing_hidden(tmp_path: Path, name: str) -> None:
    from hashlib import sha256

    (tmp_path / "secret").write_bytes(b"keep")
    folder = tmp_path / "out"
    for inner in (".git", "a"):
        (folder / inner).mkdir(parents=True)
    (folder / ".git" / "config").write_bytes(b"keep")
    (folder / "a" / ".hidden").write_bytes(b"keep")
    (folder / "link").symlink_to(tmp_path)
    digest = sha256(b"keep").hexdigest()
    (folder / MANIFEST).write_text(json.dumps({"written_by": "admc", "files": {name: digest}}))
    write_folder(folder, {"b": b"1"}, (), force=True)
    assert (tmp_path / "secret").read_bytes() == b"keep"
    assert (folder / ".git" / "config").read_bytes() == (folder / "a" / ".hidden").read_bytes() == b"keep"
    assert (folder / "b").read_bytes() == b"1"


def test_a_manifest_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit_folder, "MAX_MANIFEST", 100)
    (tmp_path / MANIFEST).write_bytes(b" " * 101)
    assert refused(tmp_path, {"a": b"1"}).code == "ADM802"


def obstacle(folder: Path, what: str) -> None:
    match what:
        case "a folder where the file goes":
            (folder / "a" / "x.yaml").mkdir(parents=True)
        case "a file where the folder goes":
            (folder / "a").write_bytes(b"1")
        case "a link where the file goes":
            (folder / "a").mkdir()
            (folder / "a" / "x.yaml").symlink_to(folder / "nowhere")
        case "a link where the folder goes":
            (folder / "a").symlink_to(folder.parent)
        case "a pipe where the file goes":
            (folder / "a").mkdir()
            os.mkfifo(folder / "a" / "x.yaml")
        case "a link where the manifest goes":
            (folder / MANIFEST).symlink_to(folder / "nowhere")
        case _:
            os.mkfifo(folder / MANIFEST)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "what",
    [
        "a folder where the file goes",
        "a file where the folder goes",
        "a link where the file goes",
        "a link where the folder goes",
        "a pipe where the file goes",
        "a link where the manifest goes",
        "a pipe where the manifest goes",
    ],
)
def test_an_obstacle_is_found_before_anything_is_written(tmp_path: Path, what: str, force: bool) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    obstacle(folder, what)
    before = sorted(folder.rglob("*"))
    with pytest.raises(CommandError) as error:
        write_folder(folder, {"0/first": b"1", "a/x.yaml": b"2"}, (), force=force)
    (found,) = error.value.diagnostics
    assert found.code == "ADM803"
    assert f"`{folder}/a" in found.message or MANIFEST in found.message
    assert sorted(folder.rglob("*")) == before


def test_the_program_is_not_overwritten_by_force(tmp_path: Path) -> None:
    program = tmp_path / "a"
    program.write_bytes(b"app a\n")
    with pytest.raises(CommandError) as error:
        write_folder(tmp_path, {"0": b"1", "a": b"2"}, (program,), force=True)
    assert error.value.diagnostics[0].cause == "the program is read from it"
    assert held(tmp_path) == {"a": b"app a\n"}


def test_the_command_refuses_and_forces(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, out = write(tmp_path, SHOP), tmp_path / "out"
    plan = program.with_name("policies.plan.json")
    (out / "search").mkdir(parents=True)
    (out / "search" / "bootstrap.yaml").write_text("mine")
    assert main(["compile", str(program), "--emit", str(out)]) == 1
    said = capfd.readouterr().err
    assert "error[ADM816]" in said
    assert "`search/bootstrap.yaml`" in said
    assert not plan.exists()
    assert held(out) == {"search/bootstrap.yaml": b"mine"}
    assert main(["compile", str(program), "--emit", str(out), "--force"]) == 0
    assert plan.exists()
    assert (out / "search" / "bootstrap.yaml").read_text() != "mine"
    capfd.readouterr()
    assert main(["compile", str(program), "--force"]) == 1
    assert "`--force` needs `--emit DIR`" in capfd.readouterr().err
