"""Reads a program with every file that it names, and resolves it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from dsl.collector import no_collection
from dsl.diagnostics.diagnostic import Diagnostics, ProgramError
from dsl.files.folders import folder_reader
from dsl.files.reading import PROGRAM, TOPOLOGY, Reader, decode, no_reader
from dsl.graph.topology import read_topology
from dsl.program import Program
from dsl.resolve.resolver import in_order, resolve
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.syntax.tokens import BESIDE, GATE, TEST
from dsl.text import SourceText, Span

MAX_USE_DEPTH = 64


class Statements(NamedTuple):
    """All statements of a program, with those of the files that it uses, in the order in which a reader meets them."""

    source: SourceText
    """The main file."""
    statements: tuple[tree.Statement, ...]
    read: Callable[[str], bytes]


def load_statements(path: Path, read: Callable[[str], bytes] | None = None, include: Sequence[Path] = ()) -> Statements:
    """The statements of a program, unresolved. Raises `ProgramError` if a file cannot be read, or a statement does not
    parse or stands in the wrong file."""
    diagnostics = Diagnostics()
    read_file = read or folder_reader(path.parent, include)
    reader = Reader(read_file, diagnostics, path.parent.as_posix(), included=bool(include))
    source = reader.text(path.name, None)
    if source is None:
        raise ProgramError(in_order(diagnostics))
    files = _Files(reader, diagnostics)
    files.gather(source)
    whole = tuple(statement for statement in files.statements if not isinstance(statement, tree.Broken))
    if diagnostics.has_errors:
        raise ProgramError(in_order(diagnostics))
    return Statements(source, whole, read_file)


def resolve_statements(given: Statements) -> Program:
    """The program of these statements. Its `inputs` lack the files of `use` and `topology`. Raises `ProgramError`."""
    diagnostics = Diagnostics()
    # Paths were resolved from their own folders before, also those that lead out of the program's folder.
    reader = Reader(given.read, diagnostics, included=True)
    reader.add(given.source.path, given.source.text.encode("utf-8", "surrogatepass"))
    with no_collection():
        program = resolve(given.source, list(given.statements), reader, diagnostics, complete=True)
    if program is None:
        raise ProgramError(in_order(diagnostics))
    return program


def load(path: Path, read: Callable[[str], bytes] | None = None, include: Sequence[Path] = ()) -> Program:
    diagnostics = Diagnostics()
    reader = Reader(
        read or folder_reader(path.parent, include), diagnostics, path.parent.as_posix(), included=bool(include)
    )
    source = reader.text(path.name, None)
    if source is None:
        raise ProgramError(in_order(diagnostics))
    return _program(source, reader, diagnostics)


def load_text(
    text: str,
    path: str = "policies.adm",
    read: Callable[[str], bytes] | None = None,
    *,
    included: bool = False,
) -> Program:
    # As in `load`, all paths are relative to the folder of the program.
    path = posixpath.basename(path) or "policies.adm"
    diagnostics = Diagnostics()
    reader = Reader(read or no_reader, diagnostics, included=included)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        content = text.encode("utf-8", "surrogatepass")
    reader.add(path, content)
    source = decode(path, content, None, diagnostics)
    if source is None:
        raise ProgramError(in_order(diagnostics))
    return _program(source, reader, diagnostics)


def _program(source: SourceText, reader: Reader, diagnostics: Diagnostics) -> Program:
    with no_collection():
        files = _Files(reader, diagnostics)
        files.gather(source)
        complete = files.complete
        statements = files.statements
        # The syntax tree is larger than the program, so `resolve` empties this list as early as possible.
        del files
        program = resolve(source, statements, reader, diagnostics, complete=complete)
    if program is None:
        raise ProgramError(in_order(diagnostics))
    return program


class _Files:
    """Follows `use` and `topology` depth first, so the order of policies is that of a reader of the text."""

    def __init__(self, reader: Reader, diagnostics: Diagnostics) -> None:
        self.reader = reader
        self.diagnostics = diagnostics
        self.statements: list[tree.Declared] = []
        self.complete = True
        self._open: list[str] = []
        self._done: set[str] = set()

    def gather(self, source: SourceText) -> None:
        self._open.append(source.path)
        for statement in parse(source, self.diagnostics).statements:
            if isinstance(statement, tree.Use):
                self._use(statement)
            elif isinstance(statement, tree.Topology):
                self._topology(statement)
            elif isinstance(statement, tree.Test | tree.Gate):
                self._misplaced(statement)
            else:
                if isinstance(statement, tree.Broken) and statement.keyword in ("use", "topology"):
                    self.complete = False
                self.statements.append(statement)
        if self.diagnostics.full:
            self.complete = False
        self._done.add(self._open.pop())

    def _misplaced(self, statement: tree.Test | tree.Gate) -> None:
        source = statement.span.source
        is_test = isinstance(statement, tree.Test)
        code, word, command = ("ADM130", TEST, "admc test") if is_test else ("ADM131", GATE, "admc diff")
        ending = BESIDE[word]
        own = source.path.endswith(ending)
        right = source.path.rpartition("/")[2].removesuffix(".adm") + ending
        self.diagnostics.error(
            code,
            f"the {word} `{statement.name.text}` stands in a program",
            statement.span,
            cause=f"{word}s about a program `shop.adm` stand beside it, in `shop{ending}`",
            hint=f"`{command}` reads `{source.path}`; no program uses it" if own else f"move it to `{right}`",
        )

    def _path(self, written: tree.String, endings: tuple[str, ...]) -> str | None:
        path = self.reader.resolve(written.value, written.span, endings)
        if path is None:
            self.complete = False
        return path

    def _text(self, path: str, span: Span) -> SourceText | None:
        source = self.reader.text(path, span)
        if source is None:
            self.complete = False
        return source

    def _use(self, statement: tree.Use) -> None:
        path = self._path(statement.path, PROGRAM)
        if path is None or path in self._done:
            return
        span = statement.path.span
        if path in self._open:
            chain = " -> ".join(f"`{name}`" for name in (*self._open[self._open.index(path) :], path))
            self.diagnostics.error(
                "ADM505",
                "these files use each other",
                span,
                cause=chain,
                hint="move the shared statements to a third file",
            )
            return
        if len(self._open) >= MAX_USE_DEPTH:
            self.diagnostics.error("ADM508", f"`use` is nested deeper than {MAX_USE_DEPTH} files", span)
            self.complete = False
            return
        source = self._text(path, span)
        if source is not None:
            self.gather(source)

    def _topology(self, statement: tree.Topology) -> None:
        path = self._path(statement.path, TOPOLOGY)
        if path is None or path in self._done:
            return
        self._done.add(path)
        source = self._text(path, statement.path.span)
        statements = None if source is None else read_topology(source, self.diagnostics)
        if statements is None:
            self.complete = False
        else:
            self.statements.extend(statements)
