"""Reads the files of one program, on disk or from given contents, and records each file that is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.base.exits import wrong_usage
from admc.compile.plan.read import MAX_BYTES, named_plan, read_plan
from admc.serve.file_watch import look
from dsl.files.folders import folder_reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from admc.compile.plan.model import Plan
    from admc.serve.file_watch import Signature


class Inputs:
    """The files around `main`, a program or a plan. Their paths are relative to its folder."""

    def __init__(self, main: Path, include: Sequence[Path] = (), files: Mapping[str, bytes] | None = None) -> None:
        """`files` has the contents of all files. If it is None, the files are on disk, beside `main` and in the
        folders of `include`."""
        self._main = main
        self._files = files
        self._on_disk = folder_reader(main.parent, include)
        self.include = tuple(include) if files is None else ()
        self.stats: Signature = {}
        """The stat of each file on disk before it was read; also of missing files, and of `main`."""
        self.contents: dict[str, bytes] = {}
        if files is None:
            self.stats[main] = look(main)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of all files; None if the files are on disk."""
        return None if self._files is None else tuple(sorted(self._files))

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""
        if self._files is None:
            here = self._main.parent / path
            self.stats[here] = look(here)
            content = self._on_disk(path)
        elif path in self._files:
            content = self._files[path]
        else:
            raise FileNotFoundError(2, "there is no such file")
        self.contents[path] = content
        return content

    def plan(self) -> Plan:
        """Return `main` as a plan. Raises `CommandError`."""
        if self._files is None:
            return read_plan(self._main, regular=True)
        content = self._files.get(self._main.name)
        if content is None or len(content) > MAX_BYTES:
            cause = "there is no such file" if content is None else f"it has more than {MAX_BYTES // 1_000_000} MB"
            raise wrong_usage("ADM802", f"cannot read the plan `{self._main}`", cause=cause)
        return named_plan(content, str(self._main))
