"""The files of one commit, read without a checkout. A program may read files of the same folders as on disk.

    path -> bytes

A link, a submodule and a pointer of Git LFS are refused: the commit has a reference in the place of their content.
"""

from __future__ import annotations

import difflib
import errno
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from admc.review.diff.sides.git import FOLDER, LINK, SUBMODULE
from dsl.files.folders import MAX_FILE_BYTES, FileTooLargeError, OutsideError, Read, leads_out

if TYPE_CHECKING:
    from admc.review.diff.sides.git import Entry, Repository

_POINTERS: Final = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")
_MAX_POINTER: Final = 1024
LFS_POINTER: Final = "it is a pointer of Git LFS, and not the file itself"


class NotInCommitError(OSError):
    """The path is a link, a submodule or a pointer, whose content the commit does not contain."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EINVAL, what)


class CommitTree:
    """The files of a commit, by their paths from the top of the repository."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self.repository = repository
        self.commit = commit

    def content(self, path: str, limit: int = MAX_FILE_BYTES) -> bytes:
        """The content of a file. Raises `OSError` if there is no such file, `CommandError` if git cannot read it."""
        entry = self._entry(path)
        if entry.mode == FOLDER:
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        content = self.repository.blob(entry.id, limit)
        if content is None:
            raise FileTooLargeError
        if is_pointer(content):
            raise NotInCommitError(LFS_POINTER)
        return content

    def has(self, path: str) -> bool:
        """Whether the commit has an entry of any type with this path."""
        try:
            self._entry(path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def files(self, ending: str) -> list[str]:
        """The paths of all files with this ending. Raises `CommandError` where git cannot list them."""
        return self.repository.files(self.commit, ending)

    def similar(self, path: str) -> str | None:
        """The path of a file for a hint: with the same name in another folder, or with a similar name."""
        known = self.repository.paths(self.commit, posixpath.splitext(path)[1])
        name = posixpath.basename(path)
        same = [candidate for candidate in known if posixpath.basename(candidate) == name]
        return min(same, default=None) or next(iter(difflib.get_close_matches(path, known, n=1)), None)

    def reader(self, folder: str, include: Sequence[str] = ()) -> Read:
        """A function that reads the files of a folder and of the folders in `include`, as `folder_reader` does.

        The returned function takes paths relative to `folder`. `folder` and `include` are relative to the top of the
        repository.
        """
        allowed = (folder, *include)

        def read(path: str) -> bytes:
            resolved = posixpath.normpath(posixpath.join(folder, path))
            if not any(_below(resolved, top) for top in allowed):
                raise OutsideError(linked=False)
            return self.content(resolved)

        return read

    def _entry(self, path: str) -> Entry:
        *folders, name = path.split("/")
        tree = self.commit
        for folder in folders:
            entry = self._named(tree, folder)
            if entry.mode != FOLDER:
                raise NotADirectoryError(errno.ENOTDIR, "a part of its path is a file")
            tree = entry.id
        return self._named(tree, name)

    def _named(self, tree: str, name: str) -> Entry:
        entry = self.repository.entries(tree).get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file")
        if entry.mode == LINK:
            raise NotInCommitError(f"`{name}` is a link, and links are not followed in a revision")
        if entry.mode == SUBMODULE:
            raise NotInCommitError(f"`{name}` is a submodule, and its files are not in this repository")
        return entry


def is_pointer(content: bytes) -> bool:
    """Whether a file is a pointer of Git LFS, which stands in a commit in place of the content."""
    return len(content) <= _MAX_POINTER and content.startswith(_POINTERS)


def _below(path: str, folder: str) -> bool:
    folder = posixpath.normpath(folder or ".")
    if leads_out(path):
        return False
    return folder == "." or path == folder or path.startswith(f"{folder}/")
