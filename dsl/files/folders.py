"""The files that a program may use: those of its own folder, and of folders that the user names.

The content of files that a program names appears in messages and configuration. Without this limit, a program that is
proposed for review could show any file of the machine that compiles it. Links are resolved before the check, and the
file is opened along the path that was checked.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

MAX_FILE_BYTES = 64 * 1024 * 1024

Read = Callable[[str], bytes]

_ATTEMPTS: Final = 3
"""A mounted folder may be replaced after its link was resolved and before its target is opened."""
_REPLACED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EINVAL)
"""The errors that the system then returns."""
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
# Without O_NONBLOCK, to open a named pipe that has no writer would block forever.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class FileTooLargeError(OSError):
    """The file has more bytes than admc reads."""


class OutsideError(OSError):
    """The file is in none of the folders that may be read."""

    def __init__(self, *, linked: bool) -> None:
        super().__init__(errno.EACCES, "it lies outside of the folders that may be read")
        self.linked = linked
        """Whether the path as written is inside one of these folders, so that a link leads out of it."""


def folder_reader(folder: Path, include: Sequence[Path] = ()) -> Read:
    """Reads regular files of a folder and of those in `include`, at any depth, by their path from `folder`.

    Raises `OutsideError` for a path out of these folders, `FileTooLargeError` before it reads a large file, and other
    errors of type `OSError` for what is absent or no regular file.
    """

    def read(path: str) -> bytes:
        with open(_opened(folder / path, (folder, *include)), "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            if not stat.S_ISREG(status.st_mode):
                raise OSError(22, "it is not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                raise FileTooLargeError
            return file.read(MAX_FILE_BYTES + 1)

    return read


def leads_out(path: str) -> bool:
    """Whether a path, as it is written, leads out of the folder that it is relative to."""
    return path == ".." or path.startswith("../")


def resolved(path: Path, folders: Sequence[Path]) -> tuple[str, tuple[str, ...]]:
    """The target of a path: one of the folders, resolved, and the names from there to the target, none of them a link.

    The target must have the suffix of the path, so that a link cannot bypass the check of suffixes. Raises `OSError`.
    """
    real = Path(os.path.realpath(path))
    for folder in folders:
        root = os.path.realpath(folder)
        if str(real) == root:
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if real.is_relative_to(root):
            if real.suffix != path.suffix:
                raise OSError(errno.EINVAL, "it is a link to a file with another suffix")
            return root, real.relative_to(root).parts
    raise OutsideError(linked=any(_as_written(path).is_relative_to(_as_written(folder)) for folder in folders))


def _as_written(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def _opened(path: Path, folders: Sequence[Path]) -> int:
    for _ in range(_ATTEMPTS - 1):
        try:
            return _open_below(*resolved(path, folders))
        except OSError as error:
            if error.errno not in _REPLACED:
                raise
    return _open_below(*resolved(path, folders))


def _open_below(root: str, names: Sequence[str]) -> int:
    """Opens each name in turn without following links, so a folder that is replaced by a link meanwhile is refused."""
    at = os.open(root, _STEP)
    try:
        for name in names[:-1]:
            deeper = os.open(name, _STEP, dir_fd=at)
            os.close(at)
            at = deeper
        return os.open(names[-1], _FILE, dir_fd=at)
    finally:
        os.close(at)
