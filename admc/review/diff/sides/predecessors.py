"""Finds the programs of BASE that a program of HEAD continues, if a change moves files, apps or services.

    CommitTree, SidePlace, Known -> Predecessors

    the change                                    HEAD continues
    none of these                                 the program at its path
    renames the program, with its gates           BASE's programs of the same app
    renames the app, or moves services into it    BASE's programs with gates that lose such a service, or are gone

By paths alone, a change that renames a program together with its gates would be compared with nothing, and so would
pass all gates.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible
from admc.review.diff.codes import CODES
from admc.review.diff.sides.files import Files
from admc.review.gates.read import gates_name
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.reading import decode
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.syntax.tokens import BESIDE, GATE_ENDING

if TYPE_CHECKING:
    from admc.review.diff.sides.place import SidePlace
    from admc.review.diff.sides.tree import CommitTree

_PROGRAM: Final = ".adm"
MAX_FILES: Final = 5000
MAX_CONTINUED: Final = 20
"""The number of programs of BASE that one program of HEAD may continue."""


class Known(NamedTuple):
    """The app and the services of a side, which are known before it is compiled."""

    app: str
    services: frozenset[str]


class Predecessor(NamedTuple):
    path: str
    """The path from the top of the repository."""
    why: str
    """The reason, as the continuation of a sentence that names the path."""


class Predecessors(NamedTuple):
    other_side: Predecessor | None
    """The other side of the comparison; None: BASE's file at the path of HEAD, if BASE has such a file."""
    further: tuple[Predecessor, ...]
    """Further programs of BASE. Their gates are judged, too."""


def predecessors(
    base: SidePlace, base_known: Known | None, head: SidePlace, known: Known, include: Sequence[Path]
) -> Predecessors:
    """The programs of BASE that HEAD continues.

    `base_known` is about BASE's file at the path of HEAD; None if there is no program and no plan without errors.
    `known` is about HEAD. Raises `CommandError` if BASE has too many files to search.
    """
    continued = base_known is not None and base_known.app == known.app
    came = known.services - (base_known.services if base_known is not None and continued else frozenset())
    if base.tree is None or (continued and not came):
        return Predecessors(None, ())
    search = _Search(base, base.tree, head, include)
    same = [] if continued else search.of_app(known.app)
    taken = {predecessor.path for predecessor in same}
    lost = [
        predecessor
        for predecessor in search.that_lose(came, gone=not continued and not same)
        if predecessor.path not in taken
    ]
    if len(same) + len(lost) > MAX_CONTINUED:
        cause = f"more than {MAX_CONTINUED} programs of BASE have its app `{known.app}`, or lose services to it"
        raise _too_many(base, head, cause)
    if same:
        return Predecessors(same[0], (*same[1:], *lost))
    if base_known is None and lost:
        return Predecessors(lost[0], tuple(lost[1:]))
    return Predecessors(None, tuple(lost))


def _too_many(base: SidePlace, head: SidePlace, cause: str) -> CommandError:
    return wrong_usage(
        "ADM838",
        f"which program of BASE `{visible(head.name)}` continues is not known",
        cause=cause,
        hint=f"name the other side: `{visible(base.revision or '')}:PATH`",
    )


class _Search:
    def __init__(self, base: SidePlace, tree_: CommitTree, head: SidePlace, include: Sequence[Path]) -> None:
        self._base = base
        self._tree = tree_
        self._head = head
        self._include = include
        files = tree_.files(_PROGRAM)
        if len(files) > MAX_FILES:
            raise _too_many(base, head, f"BASE has more than {MAX_FILES:,} files that end in `{_PROGRAM}`")
        self._names = frozenset(files)
        gated = {self._program_of(name) for name in files if name.endswith(GATE_ENDING)}
        own = base.path.as_posix()
        self._gated = sorted(path for path in gated if path is not None and path != own)
        plain = {name for name in files if name.endswith(_PROGRAM) and not name.endswith(tuple(BESIDE.values()))}
        self._programs = sorted((plain | set(self._gated)) - {own})

    def of_app(self, app: str) -> list[Predecessor]:
        """BASE's programs of the app: first those that HEAD lacks, then those with gates.

        A program with gates counts although HEAD has it, since the gates hold for a copy of the program, too.
        """
        paths = [path for path in self._programs if self._is_of(path, app)]
        here = {path: _is_there(self._in_head(path)) for path in paths}
        paths = [path for path in paths if path in self._gated or not here[path]]
        why = f"BASE's program of the app `{app}`"
        return [Predecessor(path, why) for path in sorted(paths, key=lambda path: (here[path], path))]

    def that_lose(self, came: frozenset[str], *, gone: bool) -> list[Predecessor]:
        """BASE's programs with gates that lose a service of `came`; with `gone`, also those that HEAD lacks."""
        losing = []
        for path in self._gated:
            here = self._in_head(path)
            if gone and not _is_there(here):
                losing.append(Predecessor(path, "which HEAD lacks"))
                continue
            had = came & _services(Files(self._base._replace(path=Path(path)), self._include))
            moved = had - _services(here) if had else had
            if moved:
                losing.append(Predecessor(path, f"which had the service `{min(moved)}`"))
        return losing

    def _program_of(self, gates: str) -> str | None:
        """The program of a file of gates; its name may have no ending."""
        stem = gates.removesuffix(GATE_ENDING)
        if stem + _PROGRAM in self._names:
            return stem + _PROGRAM
        return stem if gates_name(stem) == posixpath.basename(gates) and self._tree.has(stem) else None

    def _in_head(self, path: str) -> Files:
        """The files of HEAD for a path of BASE."""
        if self._head.tree is not None:
            return Files(self._head._replace(path=Path(path)), self._include)
        try:
            top = self._tree.repository.top
        except CommandError:
            top = Path()  # a bare repository has no working tree, so HEAD has no file at the path
        return Files(self._head._replace(path=top / path), self._include)

    def _is_of(self, path: str, app: str) -> bool:
        """Whether a file of BASE is a program of the app. Only a file whose text may have such a line is parsed."""
        try:
            content = self._tree.content(path)
        except OSError:
            return False  # a link, a pointer, or too large: no program
        if re.search(rb"\bapp[ \t]+" + re.escape(app.encode()), content) is None:
            return False
        diagnostics = Diagnostics()
        source = decode(path, content, None, diagnostics)
        statements = () if source is None else parse(source, diagnostics).statements
        return any(isinstance(statement, tree.App) and statement.name.text == app for statement in statements)


def _is_there(files: Files) -> bool:
    return files.has(files.path)


def _services(files: Files) -> frozenset[str]:
    """The services of a program; none if it is missing or has errors. Raises `CommandError` if git cannot read it."""
    if not _is_there(files):
        return frozenset()
    try:
        return frozenset(files.program().services)
    except CommandError as error:
        if error.diagnostics[0].code in CODES:
            raise
        return frozenset()
