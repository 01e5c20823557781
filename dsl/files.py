"""Reading the files that a program is made of, within bounds.

All reading goes through one `Reader`, so that the list of inputs is complete and no file is read twice. Paths in a
program are relative to the file that they are written in, and are kept relative to the main program's folder.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dsl.diagnostics import Diagnostics
from dsl.program import Input
from dsl.text import SourceText, Span

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_FILES = 1000
MAX_TOTAL_BYTES = 256 * 1024 * 1024

PROGRAM = (".adm",)
TOPOLOGY = (".json",)
TEMPLATE = (".yaml", ".yml", ".json")
"""How the names of files end that a program uses. What is wrong with a file is told with its lines, so a program that
somebody proposes must not make admc show those of any other file (`.git/config`, keys, environments)."""

Read = Callable[[str], bytes]


class FileTooLargeError(OSError):
    """The file has more bytes than admc reads."""


def folder_reader(folder: Path) -> Read:
    """Reads regular files below (or beside) a folder, and refuses large ones before reading them."""

    def read(path: str) -> bytes:
        # `Path.open` takes no opener.
        with open(real_path(folder / path), "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(21, "it is a folder")
            if not stat.S_ISREG(status.st_mode):
                raise OSError(22, "it is not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                raise FileTooLargeError
            return file.read(MAX_FILE_BYTES + 1)

    return read


def real_path(path: Path) -> Path:
    """Where a path leads, which has to be a file whose name ends in the same way: else a link would be a way round what
    names say. Raises `OSError`."""
    real = Path(os.path.realpath(path))
    if real.suffix != path.suffix:
        raise OSError(22, "it is a link to a file whose name ends in another way")
    return real


def _open_without_waiting(path: str, flags: int) -> int:
    """A named pipe without a writer would block forever; opened like this it does not."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def no_reader(path: str) -> bytes:
    raise OSError(2, "this program was not read from a folder")


@dataclass
class Reader:
    """Reads each file once and remembers its digest."""

    read: Read
    diagnostics: Diagnostics
    contents: dict[str, bytes] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    total: int = 0

    def add(self, path: str, content: bytes) -> None:
        self.contents[path] = content
        self.total += len(content)

    def content(self, path: str, span: Span | None) -> bytes | None:
        """Bytes of a file, or None after an error (which is reported once for each file)."""
        if path in self.contents:
            return self.contents[path]
        if path in self.failed:
            return None
        content = self._load(path, span)
        if content is None:
            self.failed.add(path)
        else:
            self.add(path, content)
        return content

    def _load(self, path: str, span: Span | None) -> bytes | None:
        error = self.diagnostics.error
        try:
            content = self.read(path)
        except FileTooLargeError:
            content = None
        except (OSError, ValueError) as problem:
            reason = _reason(problem)
            error("ADM501", f"cannot read `{path}`: {reason}", span, hint=_looked(span))
            return None
        if content is None or len(content) > MAX_FILE_BYTES:
            limit = MAX_FILE_BYTES // 1024 // 1024
            error(
                "ADM503",
                f"`{path}` is larger than {limit} MiB",
                span,
                hint="split it, or check that it is the right file",
            )
            return None
        if len(self.contents) >= MAX_FILES or self.total + len(content) > MAX_TOTAL_BYTES:
            error(
                "ADM503",
                f"the program is made of too many files: `{path}` is beyond the limit",
                span,
                cause=f"at most {MAX_FILES} files and {MAX_TOTAL_BYTES // 1024 // 1024} MiB in all are read",
            )
            return None
        return content

    def text(self, path: str, span: Span | None) -> SourceText | None:
        """A text file, or None after an error."""
        content = self.content(path, span)
        return None if content is None else decode(path, content, span, self.diagnostics)

    def inputs(self, main: str) -> tuple[Input, ...]:
        """The main file first, then all others by path: shuffled lines give the same list."""
        others = sorted(path for path in self.contents if path != main)
        return tuple(Input(path, hashlib.sha256(self.contents[path]).hexdigest()) for path in (main, *others))


def _reason(problem: OSError | ValueError) -> str:
    if isinstance(problem, FileNotFoundError):
        return "there is no such file"
    if isinstance(problem, PermissionError):
        return "permission denied"
    if isinstance(problem, IsADirectoryError):
        return "it is a folder"
    return (getattr(problem, "strerror", None) or "it is not a path that can be read").lower()


def _looked(span: Span | None) -> str | None:
    return None if span is None else "paths are relative to the file that they are written in"


def decode(path: str, content: bytes, span: Span | None, diagnostics: Diagnostics) -> SourceText | None:
    """Bytes to text; reports what is not UTF-8 text with the place of the first wrong byte."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        before = content[: error.start].decode("utf-8")
        diagnostics.error(
            "ADM502",
            f"`{path}` is not UTF-8 text: byte 0x{content[error.start]:02x} on line {line} does not fit",
            span or Span(SourceText(path, before), len(before), len(before)),
            hint="save the file as UTF-8",
        )
        return None
    at = text.find("\0")
    if at >= 0:
        diagnostics.error(
            "ADM502",
            f"`{path}` is a binary file, not text",
            span or Span(SourceText(path, ""), 0, 0),
            hint="check that this is the file you mean",
        )
        return None
    return SourceText(path, text)


def resolve_path(
    given: str, source: SourceText, span: Span, diagnostics: Diagnostics, endings: tuple[str, ...] = ()
) -> str | None:
    """The path relative to the program's folder, or None after an error. `endings`: what its name may end in."""
    problem = None
    hint = "write a path relative to this file, with `/` between folders: `shared/kinds.adm`"
    if not given or given.endswith("/"):
        problem = "it names no file"
    elif given.startswith(("/", "~")) or given[1:2] == ":":
        problem = "it is absolute, so the program would mean something else on another machine"
    elif "\\" in given:
        problem = "it has a backslash in it"
    elif not given.isprintable() or len(given) > 1000:
        problem = "it has characters in it that no path should have, or is too long"
    elif endings and not given.endswith(endings):
        problem = f"the name of such a file ends in {' or '.join(f'`{ending}`' for ending in endings)}"
        hint = "check that it is the right file; if so, give it another name"
    if problem is not None:
        diagnostics.error("ADM504", f"the path `{given[:60]}` cannot be used", span, cause=problem, hint=hint)
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source.path), given))
