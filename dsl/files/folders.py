"""Which files of a machine a program may be read from: those of its own folder, and of folders that the user names.

A program names files, and what they hold goes into findings and into configuration. Without a bound, a program that is
proposed for review could bring any file of the machine that compiles it into view. Links are resolved before the test,
and the file is opened along the path that was tested.
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
"""A mounted folder may be replaced between the look at a link and the opening of its target."""
_REPLACED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EINVAL)
"""What the system says then."""
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
# A named pipe without a writer would block for ever; opened without waiting it does not.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class FileTooLargeError(OSError):
    """The file has more bytes than admc reads."""


class OutsideError(OSError):
    """The file is in none of the folders that may be read."""

    def __init__(self, *, linked: bool) -> None:
        super().__init__(errno.EACCES, "it lies outside of the folders that may be read")
        self.linked = linked
        """The path, as it is written, leads into one of them: it is a link that leads out."""


def folder_reader(folder: Path, include: Sequence[Path] = ()) -> Read:
    """Reads regular files of a folder and of those in `include`, at any depth, by their path from `folder`.

    Raises `OutsideError` for all others, and refuses large files before it reads them.
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
    """Where a path leads: one of the folders without links, and the names of the way down from there, none a link.

    The file's name has to end as that of the path: a link would else be a way round what names say. Raises `OSError`.
    """
    real = Path(os.path.realpath(path))
    for folder in folders:
        root = os.path.realpath(folder)
        if str(real) == root:
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if real.is_relative_to(root):
            if real.suffix != path.suffix:
                raise OSError(errno.EINVAL, "it is a link to a file whose name ends in another way")
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
    """Opened one name after the other, so that a link that takes a folder's place meanwhile is not followed."""
    at = os.open(root, _STEP)
    try:
        for name in names[:-1]:
            deeper = os.open(name, _STEP, dir_fd=at)
            os.close(at)
            at = deeper
        return os.open(names[-1], _FILE, dir_fd=at)
    finally:
        os.close(at)
