"""Writes an emitted configuration into a folder, and removes the files of an earlier emit.

A manifest in the folder lists the files that admc wrote, with their digests. A file that was there with the same
content counts as written by admc. Other files are never overwritten, unless the user forces it, and never removed, but
for temporary files of admc. Each file is written atomically. While files are replaced, the manifest has the digests of
the old and of the new content. So the next emit completes an interrupted one, and does not treat its files as files of
the user. All errors that can be detected in advance are reported before the first byte is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import (
    is_folder,
    is_temporary,
    present,
    read_bounded,
    status_to_replace,
    system_message,
    write_whole,
)
from admc.compile.emit.manifest import MANIFEST, NONE, Digests, Manifest, from_json, to_json
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.words import few

__all__ = ["MANIFEST", "Emitted", "kept_files", "write_folder"]

MAX_MANIFEST = 64_000_000
NAMED = 10
"""The most files that a message names. The others are counted."""


class Emitted(NamedTuple):
    written: int
    unchanged: int
    removed: int
    warnings: tuple[Diagnostic, ...]


def write_folder(folder: Path, files: Mapping[str, bytes], inputs: tuple[Path, ...], *, force: bool = False) -> Emitted:
    """Write `files` (relative path -> content) into `folder`. Raises `CommandError` if that is impossible.

    A file that admc did not write, or that was changed since, is an error if one of `files` would replace it. A file of
    an earlier emit that was changed since, and has no successor, stays with a warning. With `force`, both give way.
    """
    known, cut_off = _read_manifest(folder, inputs)
    try:
        _refuse_obstacles(folder, files)
    except OSError as error:
        raise wrong_usage("ADM803", f"cannot look into `{folder}`", cause=system_message(error)) from error
    on_disk = {path: _on_disk(folder / path, content, inputs) for path, content in files.items()}
    new = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    foreign = [
        path for path, digest in on_disk.items() if digest not in (None, new[path], *known.get(path, frozenset()))
    ]
    if foreign and not force:
        raise _would_overwrite(folder, sorted(foreign), known)
    _make_folders(folder, {PurePosixPath(path).parent for path in files})
    final = {path: frozenset((digest,)) for path, digest in new.items()}
    if known != final:
        write_whole(folder / MANIFEST, to_json(Manifest({**known, **_either(known, on_disk, new)}, under_way=True)))
    written = sum(write_whole(folder / path, files[path], inputs=inputs) for path in sorted(files))
    stale = {path: digests for path, digests in known.items() if path not in new}
    # The manifest marks the emit as under way before any other file is begun.
    _remove_temporary(folder, {*known, *new, MANIFEST} if cut_off else {MANIFEST})
    removed, kept = _remove_stale(folder, stale, force=force)
    write_whole(folder / MANIFEST, to_json(Manifest({**final, **{path: stale[path] for path in kept}})))
    return Emitted(written, len(files) - written, removed, tuple(_still_there(folder / path) for path in kept))


def kept_files(
    folder: Path, files: Mapping[str, bytes], inputs: tuple[Path, ...], *, force: bool = False
) -> tuple[Diagnostic, ...]:
    """The warnings of `write_folder`, without writing anything. Raises `CommandError`."""
    known = {} if force else _read_manifest(folder, inputs).files
    stale = {path: digests for path, digests in known.items() if path not in files}
    try:
        kept = [path for path, digests in sorted(stale.items()) if _is_edited(folder / path, digests)]
    except OSError as error:
        raise wrong_usage("ADM803", f"cannot look into `{folder}`", cause=system_message(error)) from error
    return tuple(_still_there(folder / path) for path in kept)


def _either(known: Digests, on_disk: Mapping[str, str | None], new: Mapping[str, str]) -> Digests:
    """The digests of each file before (if admc wrote the file) and after the emit.

    These are at most two digests, even after many interrupted emits.
    """
    return {
        path: frozenset((digest,)) | (known.get(path, frozenset()) & {on_disk[path] or ""})
        for path, digest in new.items()
    }


def _still_there(path: Path) -> Diagnostic:
    return Diagnostic(
        "ADM810",
        Severity.WARNING,
        f"`{path}` is no longer part of the configuration, but was edited, so it stays",
        None,
        hint="remove it, or let `--force` remove it",
    )


def _would_overwrite(folder: Path, foreign: list[str], known: Digests) -> CommandError:
    causes = []
    edited = [path for path in foreign if path in known]
    others = [path for path in foreign if path not in known]
    if edited:
        since = "was changed since admc wrote it" if len(edited) == 1 else "were changed since admc wrote them"
        causes.append(f"{_named(edited, 1)} {since}")
    if others:
        causes.append(f"admc did not write {_named(others, 1)}")
    which, them = ("a file", "it") if len(foreign) == 1 else (f"{len(foreign)} files", "them")
    return wrong_usage(
        "ADM816",
        f"`--emit {folder}` would overwrite {which} of yours: {_named(foreign, NAMED)}",
        cause="; ".join(causes),
        hint=f"emit into another folder, move {them} away, or overwrite {them} with `--force`; nothing was written",
    )


def _named(paths: list[str], most: int) -> str:
    return few([f"`{path}`" for path in paths], most)


# ---- reading the folder ----


def _read_manifest(folder: Path, inputs: tuple[Path, ...]) -> Manifest:
    """The files of earlier emits. An invalid manifest counts as an empty one, so that no file counts as written by
    admc."""
    if present(folder) and not is_folder(folder):
        raise wrong_usage("ADM803", f"cannot write to `{folder}`", cause="it is not a directory")
    path = folder / MANIFEST
    if status_to_replace(path, inputs) is None:
        return NONE
    listed, under_way = from_json(read_bounded(path, MAX_MANIFEST, "the manifest", regular=True))
    try:
        known = {name: digests for name, digests in listed.items() if not _through_a_link(folder, name)}
    except OSError as error:
        raise wrong_usage("ADM803", f"cannot look into `{folder}`", cause=system_message(error)) from error
    return Manifest(known, under_way)


def _through_a_link(folder: Path, name: str) -> bool:
    return any((folder / parent).is_symlink() for parent in PurePosixPath(name).parents if parent.parts)


def _on_disk(path: Path, content: bytes, inputs: tuple[Path, ...]) -> str | None:
    """The digest of the file that `content` will replace, or None if there is no file. Raises `CommandError`."""
    status = status_to_replace(path, inputs)
    return None if status is None else _digest(path)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise wrong_usage("ADM803", f"cannot tell whether admc wrote `{path}`", cause=system_message(error)) from error


def _is_file(path: Path) -> bool:
    """Whether the path is a regular file, and no link."""
    return not path.is_symlink() and path.is_file()


def _is_edited(path: Path, digests: frozenset[str]) -> bool:
    return _is_file(path) and _digest(path) not in digests


def _refuse_obstacles(folder: Path, paths: Iterable[str]) -> None:
    """Check that every folder exists or can be made. Links are not followed, because a link may lead anywhere."""
    parents = {parent for path in paths for parent in PurePosixPath(path).parents if parent.parts}
    for at in sorted(folder / parent for parent in parents):
        if at.is_symlink():
            raise wrong_usage("ADM803", f"admc does not write to `{at}`", cause="it is a symbolic link")
        if at.exists() and not at.is_dir():
            raise wrong_usage(
                "ADM803",
                f"cannot make the folder `{at}`",
                cause="a file has this name",
                hint="move it away, or emit into another folder",
            )


# ---- changing the folder ----


def _make_folders(folder: Path, parents: set[PurePosixPath]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for parent in sorted(parents):
            (folder / parent).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise wrong_usage("ADM803", f"cannot make the folder `{folder}`", cause=system_message(error)) from error


def _remove_temporary(folder: Path, names: set[str]) -> None:
    """Remove the temporary files of a killed process."""
    for parent in {PurePosixPath(name).parent for name in names}:
        ours = {PurePosixPath(name).name for name in names if PurePosixPath(name).parent == parent}
        try:
            for path in sorted((folder / parent).iterdir()) if (folder / parent).is_dir() else ():
                if is_temporary(path.name, ours) and path.is_file() and not path.is_symlink():
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise wrong_usage("ADM803", f"cannot tidy up `{folder / parent}`", cause=system_message(error)) from error


def _remove_stale(folder: Path, stale: Digests, *, force: bool) -> tuple[int, list[str]]:
    """Remove files that are unchanged since admc wrote them, and folders that become empty."""
    removed, kept = 0, []
    for name, digests in sorted(stale.items()):
        path = folder / name
        try:
            if not _is_file(path):
                continue
            if not force and _is_edited(path, digests):
                kept.append(name)
                continue
            path.unlink()
            removed += 1
            for parent in PurePosixPath(name).parents:
                if parent.parts and not any((folder / parent).iterdir()):
                    (folder / parent).rmdir()
        except OSError as error:
            raise wrong_usage("ADM803", f"cannot remove `{path}`", cause=system_message(error)) from error
    return removed, kept
