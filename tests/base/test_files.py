"""Files are written atomically, and only where that is allowed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from admc.base import files
from admc.base.exits import CommandError, Exit
from admc.base.files import read_bounded, write_whole
from admc.compile.emit.folder import MANIFEST, write_folder


def refused(error: pytest.ExceptionInfo[CommandError]) -> str:
    assert error.value.exit_code is Exit.INPUT
    (found,) = error.value.diagnostics
    return f"{found.code} {found.message} {found.cause}"


def test_a_new_file_and_an_unchanged_one(tmp_path: Path) -> None:
    target = tmp_path / "a.plan.json"
    assert write_whole(target, b"one")
    before = target.stat().st_mtime_ns
    assert not write_whole(target, b"one")
    assert target.stat().st_mtime_ns == before
    assert write_whole(target, b"two")
    assert target.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [target]


def test_the_mode_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "a.plan.json"
    target.write_bytes(b"one")
    target.chmod(0o640)
    write_whole(target, b"two")
    assert target.stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
@pytest.mark.parametrize("former", [b"one", b"two"])
def test_a_private_file_is_for_its_owner_alone_whatever_was_there(tmp_path: Path, mode: int, former: bytes) -> None:
    target = tmp_path / "state.json"
    target.write_bytes(former)
    target.chmod(mode)
    assert write_whole(target, b"two", private=True)
    assert (target.read_bytes(), target.stat().st_mode & 0o7777) == (b"two", 0o600)
    assert not write_whole(target, b"two", private=True)


@pytest.mark.parametrize("broken", ["fsync", "fchmod", "replace", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_an_existing_file_survives_any_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, number: int
) -> None:
    target = tmp_path / "a.plan.json"
    target.write_bytes(b"precious")

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number))

    if broken == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(files.os, broken, fail)
    with pytest.raises(CommandError) as error:
        write_whole(target, b"new")
    monkeypatch.undo()
    assert "ADM803" in refused(error)
    assert os.strerror(number).lower() in refused(error)
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("there", [False, True])
def test_a_failure_says_what_is_there_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    target = tmp_path / "a.plan.json"
    if there:
        target.write_bytes(b"precious")

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(CommandError) as error:
        write_whole(target, b"new")
    said = error.value.diagnostics[0].hint or ""
    assert said.startswith("the file is unchanged" if there else "nothing was written")


def test_a_full_disk(tmp_path: Path) -> None:
    """A real one, as small as it gets: a file system would need root, the device that is always full does not."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(CommandError) as error:
        write_whole(Path("/dev/full"), b"new")
    assert "not a regular file" in refused(error)


def test_interrupted_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.plan.json"
    target.write_bytes(b"precious")

    def interrupt(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(target, b"new")
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


def test_places_that_are_refused(tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    program.write_bytes(b"app a\n")
    link = tmp_path / "link"
    link.symlink_to(program)
    hard = tmp_path / "hard"
    hard.hardlink_to(program)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "elsewhere")
    for target, why in [
        (program, "the program is read from it"),
        (hard, "the program is read from it"),
        (link, "symbolic link"),
        (dangling, "symbolic link"),
        (tmp_path, "directory"),
        (tmp_path / "no" / "such" / "folder", f"there is no folder `{tmp_path}/no/such`"),
        (program / "below", "not a directory"),
    ]:
        with pytest.raises(CommandError) as error:
            write_whole(target, b"new", inputs=(program,))
        assert why in refused(error)
    assert program.read_bytes() == b"app a\n"
    assert not (tmp_path / "elsewhere").exists()


def test_reading_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 2_000_001)
    assert len(read_bounded(path, 2_000_001, "the file")) == 2_000_001
    with pytest.raises(CommandError) as error:
        read_bounded(path, 2_000_000, "the file")
    assert "more than 2 MB" in refused(error)
    for missing in (tmp_path / "none", tmp_path, Path("a\0b")):
        with pytest.raises(CommandError):
            read_bounded(missing, 10, "the file")


# ---- folders ----


def written(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }


def test_a_folder_holds_what_was_emitted_last(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    first = write_folder(folder, {"a/x.yaml": b"1", "b/y.yaml": b"2", "top": b"3"}, ())
    assert (first.written, first.removed) == (3, 0)
    (folder / "a" / "mine").write_bytes(b"of the user")
    second = write_folder(folder, {"a/z.yaml": b"4", "top": b"3"}, ())
    assert (second.written, second.unchanged, second.removed) == (1, 1, 2)
    assert written(folder) == {"a/mine": b"of the user", "a/z.yaml": b"4", "top": b"3"}
    assert not (folder / "b").exists()


def test_a_file_changed_by_hand_stays_and_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a/x.yaml": b"1"}, ())
    (tmp_path / "a" / "x.yaml").write_bytes(b"edited")
    emitted = write_folder(tmp_path, {"b": b"2"}, ())
    assert [item.code for item in emitted.warnings] == ["ADM810"]
    assert written(tmp_path) == {"a/x.yaml": b"edited", "b": b"2"}


@pytest.mark.parametrize(
    "manifest",
    [
        b"\xff\x00",
        b"[" * 100_000,
        b'{"files": 3}',
        b"[]",
        b'{"files": {"../secret": "DIGEST", "/etc/hostname": "DIGEST", "link/secret": "DIGEST", "": "DIGEST"}}',
    ],
)
def test_a_hostile_manifest_removes_nothing_outside(tmp_path: Path, manifest: bytes) -> None:
    import hashlib

    secret = tmp_path / "secret"
    secret.write_bytes(b"keep")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    digest = hashlib.sha256(b"keep").hexdigest().encode()
    (folder / MANIFEST).write_bytes(manifest.replace(b"DIGEST", digest))
    write_folder(folder, {"a": b"1"}, ())
    assert secret.read_bytes() == b"keep"
    assert (folder / "a").read_bytes() == b"1"


def test_links_in_the_folder_are_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "search").symlink_to(outside)
    with pytest.raises(CommandError) as error:
        write_folder(folder, {"search/bootstrap.yaml": b"1"}, ())
    assert "symbolic link" in refused(error)
    assert list(outside.iterdir()) == []


def test_an_emit_that_was_cut_short_is_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from admc.compile.emit import folder as emit_folder

    write_folder(tmp_path, {"old": b"1"}, ())
    real = emit_folder.write_whole

    def cut(path: Path, content: bytes, *, inputs: tuple[Path, ...] = ()) -> bool:
        if path.name == "second":
            raise KeyboardInterrupt
        return real(path, content, inputs=inputs)

    monkeypatch.setattr(emit_folder, "write_whole", cut)
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path, {"first": b"2", "second": b"3"}, ())
    monkeypatch.undo()
    write_folder(tmp_path, {"third": b"4"}, ())
    assert written(tmp_path) == {"third": b"4"}
