"""One interface to the files of a side, whether they are on disk or in a commit."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import is_folder, present, read_bounded, system_message
from admc.base.terminal import visible
from admc.compile.pipeline import folder_of, input_files, load_program
from admc.compile.plan.beside import default_plan_path
from admc.compile.plan.read import MAX_BYTES, named_plan
from admc.review.diff.sides.place import in_repository
from admc.review.diff.sides.tree import LFS_POINTER, is_pointer
from admc.review.gates.read import gates_name
from dsl.files.folders import FileTooLargeError, folder_reader
from dsl.loader import load_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.compile.plan.model import Plan
    from admc.review.diff.sides.place import SidePlace
    from admc.review.diff.sides.tree import CommitTree
    from dsl.files.folders import Read
    from dsl.loader import Statements
    from dsl.program import Program

_PULL: Final = "keep plans and programs out of LFS: `*.plan.json !filter !diff !merge` in `.gitattributes`"


class Files:
    """The files of one side. `path` is the file that the side's name on the command line stands for."""

    def __init__(self, place: SidePlace, include: Sequence[Path]) -> None:
        self._place = place
        self._include = include
        self.path = place.path

    @property
    def folder(self) -> str:
        """The folder of the program, as a user would type it. Paths in findings are relative to it."""
        folder = folder_of(self.path)
        return folder if self._place.revision is None else f"{self._place.revision}:{folder}".removesuffix(":")

    def on_disk(self, program: Program | None) -> tuple[Path, ...]:
        """The files on disk that this side is read from, so that no output replaces them; none for a commit."""
        if self._place.tree is not None:
            return ()
        beside = (default_plan_path(self.path), self.path.with_name(gates_name(self.path.name)))
        return (self.path, *beside, *(() if program is None else input_files(self.path, program)))

    def missing(self) -> bool:
        """Whether the commit lacks the file. False for a path on disk, where the reader reports a missing file."""
        tree = self._place.tree
        return tree is not None and not tree.has(self.path.as_posix())

    def program(self) -> Program:
        """The program. Raises `CommandError` if it is missing or has errors."""
        if self._place.tree is None:
            return load_program(self.path, include=self._include)
        self.content(self.path, "the program")
        try:
            return load_program(self.path, self.reader(), include=self._include)
        except CommandError as error:
            raise CommandError(error.exit_code, error.diagnostics, self.folder) from error

    def statements(self) -> Statements:
        """The statements of the program, which must have been read without errors."""
        return load_statements(self.path, self.reader(), self._include)

    def reader(self) -> Read:
        """A function that reads files by their paths relative to the folder of `path`."""
        tree = self._place.tree
        if tree is None:
            return folder_reader(self.path.parent, self._include)
        included = [in_repository(tree.repository, folder) for folder in self._include]
        return tree.reader(posixpath.dirname(self.path.as_posix()), included)

    def readable(self) -> bool:
        """Whether the file can be read. If so, later errors are errors in its content."""
        if self._place.tree is None:
            return present(self.path) and not is_folder(self.path)
        self.content(self.path, "the program")
        return True

    def plan(self, path: Path) -> Plan:
        """The plan in a file. Raises `CommandError` if it is missing or has errors."""
        content = self.content(path, "the plan")
        if is_pointer(content):
            raise wrong_usage("ADM837", f"cannot read the plan `{self._shown(path)}`", cause=LFS_POINTER, hint=_PULL)
        return named_plan(content, self._shown(path))

    def has(self, path: Path) -> bool:
        tree = self._place.tree
        return present(path) if tree is None else tree.has(path.as_posix())

    def content(self, path: Path, what: str) -> bytes:
        tree = self._place.tree
        if tree is None:
            return read_bounded(path, MAX_BYTES, what, regular=True)
        try:
            return tree.content(path.as_posix(), MAX_BYTES)
        except FileNotFoundError as error:
            raise self._missing(tree, path) from error
        except FileTooLargeError as error:
            cause = f"it has more than {MAX_BYTES // 1_000_000} MB"
            raise wrong_usage("ADM837", f"{what} `{self._shown(path)}` is too large", cause=cause) from error
        except OSError as error:
            raise wrong_usage(
                "ADM837",
                f"cannot read {what} `{self._shown(path)}`",
                cause=system_message(error),
                hint=_PULL if system_message(error) == LFS_POINTER else None,
            ) from error

    def _shown(self, path: Path) -> str:
        revision = self._place.revision
        return visible(path.as_posix() if revision is None else f"{revision}:{path.as_posix()}")

    def _missing(self, tree: CommitTree, path: Path) -> CommandError:
        guess = tree.similar(path.as_posix())
        return wrong_usage(
            "ADM836",
            f"the revision has no file `{self._shown(path)}`",
            cause=f"it is commit {tree.commit}",
            hint=None if guess is None else f"did you mean `{visible(self._place.revision or '')}:{visible(guess)}`?",
        )
