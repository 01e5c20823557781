"""Reads the files of a program, within limits of number and size.

One `Reader` reads all files, so that the list of inputs is complete and no file is read twice. A path in a file is
relative to that file; the reader stores it relative to the folder of the main program.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass, field
from typing import Final

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.folders import MAX_FILE_BYTES, FileTooLargeError, OutsideError, Read, leads_out
from dsl.program import Input
from dsl.text import SourceText, Span

MAX_FILES = 1000
MAX_TOTAL_BYTES = 256 * 1024 * 1024

PROGRAM = (".adm",)
TOPOLOGY = (".json",)
PROFILE = (".json",)
TEMPLATE = (".yaml", ".yml", ".json")
"""Suffixes of the files that a program uses. Messages quote lines of these files, so a program from elsewhere must not
make admc quote other files (`.git/config`, keys, environments). The file of an argument may have any suffix."""


def no_reader(path: str) -> bytes:
    raise OSError(2, "this program was not read from a folder")


_ADDRESS: Final = re.compile(r"(?:[a-z][a-z0-9+]*:/|data:)", re.IGNORECASE)
_ADDRESS_START: Final = re.compile(r"\A([a-z][a-z0-9+]+):/(?!/)", re.IGNORECASE)
_CONTENT: Final = re.compile(r"[\n{}();=]|-----BEGIN|\\n|\bfunction\b")


@dataclass
class Reader:
    """Reads each file once and remembers its content."""

    read: Read
    diagnostics: Diagnostics
    folder: str = ""
    """The program's folder as the user typed it, for hints."""
    included: bool = False
    """Whether the user allows other folders. Paths may then lead out of the program's folder; `read` checks them."""
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
        except OutsideError as problem:
            self._outside(path, span, linked=problem.linked)
            return None
        except (OSError, ValueError) as problem:
            reason = _reason(problem)
            missing = isinstance(problem, FileNotFoundError)
            written = _ADDRESS_START.sub(r"\1://", path)  # a path has no `//`
            hint = _no_file(path, missing=missing) or _looked(span)
            error("ADM501", f"cannot read `{written}`: {reason}", span, hint=hint)
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
                f"the program has too many files: `{path}` is beyond the limit",
                span,
                cause=f"at most {MAX_FILES} files and {MAX_TOTAL_BYTES // 1024 // 1024} MiB in all are read",
            )
            return None
        return content

    def resolve(self, given: str, span: Span, endings: tuple[str, ...] = ()) -> str | None:
        """The path written at `span`, relative to the program's folder; None after an error.

        `endings` are the allowed suffixes.
        """
        path = resolve_path(given, span.source, span, self.diagnostics, endings)
        if path is not None and leads_out(path) and not self.included:
            self._outside(path, span, linked=False)
            return None
        return path

    def _outside(self, path: str, span: Span | None, *, linked: bool) -> None:
        what, cause = f"`{path}` lies outside the program's folder", "a program reads files of its own folder only"
        if self.included:
            cause += ", and of those that `--include` names"
        if not linked:
            folder = posixpath.normpath(posixpath.join(self.folder, posixpath.dirname(path)))
            hint = f"move the file into the program's folder, or allow its folder with `--include {folder}`"
        else:
            what = f"`{path}` is a link out of the folders that may be read"
            hint = "replace the link by the file, or allow the folder of the link's target with `--include DIR`"
        self.diagnostics.error("ADM509", what, span, cause=cause, hint=hint)

    def text(self, path: str, span: Span | None) -> SourceText | None:
        """A text file, or None after an error."""
        content = self.content(path, span)
        return None if content is None else decode(path, content, span, self.diagnostics)

    def inputs(self, main: str) -> tuple[Input, ...]:
        """The main file first, then all others by path, whatever the order of their use."""
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


def _no_file(path: str, *, missing: bool) -> str | None:
    """The hint for a text that is no path, but an address or the content of a file."""
    if _ADDRESS.match(path):
        return "admc fetches nothing: download it into a file beside the program, and give the name of that file"
    if missing and _CONTENT.search(path):
        return "this argument is the name of a file: save the content to a file beside the program, and give its name"
    return None


def _looked(span: Span | None) -> str | None:
    return None if span is None else "paths are relative to the file that they are written in"


def decode(path: str, content: bytes, span: Span | None, diagnostics: Diagnostics) -> SourceText | None:
    """Bytes to text; None after an error, if the content is not UTF-8 or has a NUL. The error is at `span`, which names
    the file; without one, it is in the file itself."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        before = content[: error.start].decode("utf-8")
        diagnostics.error(
            "ADM502",
            f"`{path}` is not UTF-8 text: byte 0x{content[error.start]:02x} on line {line} is invalid",
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
    """The path relative to the program's folder, or None after an error. `endings` are the allowed suffixes."""
    problem = None
    hint = "write a path relative to this file, with `/` between folders: `shared/kinds.adm`"
    if not given or given.endswith("/"):
        problem = "it names no file"
    elif given.startswith(("/", "~")) or given[1:2] == ":":
        problem = "it is absolute, so it names different files on different machines"
    elif "\\" in given:
        problem = "it has a backslash in it"
    elif not given.isprintable() or len(given) > 1000:
        problem = "it contains characters that are not printable, or is too long"
    elif endings and not given.endswith(endings):
        problem = f"the name of such a file ends in {' or '.join(f'`{ending}`' for ending in endings)}"
        hint = "check that it is the right file; if so, give it another name"
    if problem is not None:
        diagnostics.error("ADM504", f"the path `{given[:60]}` cannot be used", span, cause=problem, hint=hint)
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source.path), given))
