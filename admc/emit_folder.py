"""Writing an emitted configuration into a folder, and taking away what an earlier emit left there.

Only what admc wrote is ever removed: a manifest in the folder says what that was, with digests, so that a file that
somebody changed since then stays. Each file appears whole; the manifest is written first with old and new files
together, so that an emit that was cut short is cleaned up by the next one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from admc.exits import wrong_usage
from admc.files import read_bounded, write_whole
from dsl.diagnostics import Diagnostic, Severity

MANIFEST = ".admc-manifest.json"
MAX_MANIFEST = 64_000_000


class Emitted(NamedTuple):
    written: int
    unchanged: int
    removed: int
    warnings: tuple[Diagnostic, ...]


def write_folder(folder: Path, files: Mapping[str, bytes], inputs: tuple[Path, ...]) -> Emitted:
    """Make `folder` hold `files` (relative path -> content). Raises `CommandError` where it cannot."""
    if folder.exists() and not folder.is_dir():
        raise wrong_usage("ADM803", f"cannot write to `{folder}`", cause="it is not a directory")
    before = _read_manifest(folder)
    new = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    _make_folders(folder, {PurePosixPath(path).parent for path in files})
    if before != new:
        write_whole(folder / MANIFEST, _manifest({**before, **new}))
    written = sum(write_whole(folder / path, files[path], inputs=inputs) for path in sorted(files))
    removed, kept = _remove_stale(folder, {path: digest for path, digest in before.items() if path not in new})
    write_whole(folder / MANIFEST, _manifest(new))
    return Emitted(written, len(files) - written, removed, tuple(_stays(folder / path) for path in kept))


def kept_files(folder: Path, files: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    """What `write_folder` would warn of, found without writing anything."""
    stale = {path: digest for path, digest in _read_manifest(folder).items() if path not in files}
    return tuple(_stays(folder / path) for path, digest in sorted(stale.items()) if _is_changed(folder / path, digest))


def _is_changed(path: Path, digest: str) -> bool:
    """Whether there is a file with another content. Raises `OSError`."""
    # What is no file is gone already, or not what admc wrote.
    return not path.is_symlink() and path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != digest


def _stays(path: Path) -> Diagnostic:
    return Diagnostic(
        "ADM810",
        Severity.WARNING,
        f"`{path}` is no longer part of the configuration, but was changed by hand, and stays",
        None,
        hint="remove it if nothing needs it",
    )


def _manifest(digests: Mapping[str, str]) -> bytes:
    document = {"written_by": "admc", "files": dict(sorted(digests.items()))}
    return (json.dumps(document, indent=1) + "\n").encode("ascii")


def _read_manifest(folder: Path) -> dict[str, str]:
    """Files of the last emit. What is not a manifest, or names anything outside the folder, counts as nothing."""
    path = folder / MANIFEST
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        document = json.loads(read_bounded(path, MAX_MANIFEST, "the manifest"))
    except (ValueError, RecursionError):
        return {}
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, dict):
        return {}
    return {name: digest for name, digest in files.items() if isinstance(digest, str) and _is_inside(folder, name)}


def _is_inside(folder: Path, name: str) -> bool:
    """True for a relative path that stays in the folder, links on the way included."""
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
        return False
    return not any((folder / parent).is_symlink() for parent in relative.parents if parent.parts)


def _make_folders(folder: Path, parents: set[PurePosixPath]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for parent in sorted(parents):
            at = folder
            for part in parent.parts:
                at = at / part
                if at.is_symlink():
                    raise wrong_usage("ADM803", f"admc does not write to `{at}`", cause="it is a symbolic link")
                at.mkdir(exist_ok=True)
    except OSError as error:
        raise wrong_usage(
            "ADM803", f"cannot make the folder `{folder}`", cause=(error.strerror or "the system refused").lower()
        ) from error


def _remove_stale(folder: Path, stale: Mapping[str, str]) -> tuple[int, list[str]]:
    """Remove files that are still as admc wrote them, and folders that this leaves empty."""
    removed, kept = 0, []
    for name, digest in sorted(stale.items()):
        path = folder / name
        if path.is_symlink() or not path.is_file():
            continue  # gone already, or not what admc wrote
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                kept.append(name)
                continue
            path.unlink()
            removed += 1
            for parent in PurePosixPath(name).parents:
                if parent.parts and not any((folder / parent).iterdir()):
                    (folder / parent).rmdir()
        except OSError as error:
            raise wrong_usage(
                "ADM803", f"cannot remove `{path}`", cause=(error.strerror or "the system refused").lower()
            ) from error
    return removed, kept
