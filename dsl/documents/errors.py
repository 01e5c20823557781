"""The errors of a document, with their places."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from dsl.documents.json_text import shown_path

if TYPE_CHECKING:
    from dsl.documents.json_text import Path, Places


class Fault(Enum):
    """The way in which a value is wrong."""

    SYNTAX = auto()
    """It is no JSON, is beyond a limit or has a key twice, in a document for `read_exact`."""
    ABSENT = auto()
    """It lacks a key or an entry."""
    SHAPE = auto()
    """It is of another kind than its type, or has a key that is unknown or there twice."""
    NUMBER = auto()
    """It is not a number that its type allows."""
    NAME = auto()
    """It is none of the texts that its type allows."""


class Violation(NamedTuple):
    """One value that does not fit its type."""

    path: Path
    message: str
    """What is wrong, as the end of a sentence that begins with the place: `must be a whole number`."""
    fault: Fault
    range: tuple[int, int]
    """The place in the text: the offsets of the first character and of the one after the last."""
    hint: str | None = None

    def __str__(self) -> str:
        where = shown_path(self.path) or "the document"
        return self.message if self.fault is Fault.SYNTAX else f"`{where}` {self.message}"


class DocumentError(Exception):
    """Bytes that are no document of a type. `violations` is empty if the error concerns no single value, or has no
    place: bytes that are no JSON or no object, too many values, a later check of the contents."""

    def __init__(self, message: str, violations: tuple[Violation, ...] = ()) -> None:
        self.message = message
        self.violations = violations
        self.hint = violations[0].hint if violations else None
        super().__init__(message)


class VersionError(DocumentError):
    """A document has another schema version than the one that is read."""

    def __init__(self, message: str, violation: Violation, version: int, *, newer: bool) -> None:
        self.version = version
        self.newer = newer
        super().__init__(message, (violation,))


def error_of(places: Places, violations: tuple[Violation, ...]) -> DocumentError:
    first = violations[0]
    line = places.line(first.range[0])
    return DocumentError(f"{first} (line {line})", violations)
