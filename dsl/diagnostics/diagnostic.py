"""The model of all diagnostics: message, place, cause and hint.

Errors are collected, not raised, so that a user sees all errors of a file in one run. The application renders them as
text, JSON, SARIF and other formats.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from dsl.text import Span

MAX_DIAGNOSTICS = 100
_MANY = 2000


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    """Neither an error nor a likely mistake: no exit code depends on it."""


class Related(NamedTuple):
    """A second place that is part of the cause, such as the earlier of two declarations."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `message` is lower case, without a final period, with backticks around quotations of the program."""

    code: str
    severity: Severity
    message: str
    span: Span | None
    cause: str | None = None
    hint: str | None = None
    related: tuple[Related, ...] = ()


class ProgramError(Exception):
    """The input has errors. `diagnostics` are the findings that `Diagnostics` kept, also warnings and notes."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics[:3]))


@dataclass
class Diagnostics:
    """Collects findings; keeps at most `MAX_DIAGNOSTICS` of each severity and counts the rest."""

    items: list[Diagnostic] = field(default_factory=list)
    dropped: int = 0
    counts: Counter[Severity] = field(default_factory=Counter)

    def add(self, diagnostic: Diagnostic) -> None:
        self.counts[diagnostic.severity] += 1
        if self.counts[diagnostic.severity] <= MAX_DIAGNOSTICS:
            self.items.append(diagnostic)
        else:
            self.dropped += 1

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        cause: str | None = None,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.add(Diagnostic(code, Severity.ERROR, message, span, cause, hint, related))

    def warning(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        cause: str | None = None,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.add(Diagnostic(code, Severity.WARNING, message, span, cause, hint, related))

    def note(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        cause: str | None = None,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.add(Diagnostic(code, Severity.NOTE, message, span, cause, hint, related))

    def did_you_mean(self, name: str, known: Iterable[str], before: str = "") -> str | None:
        """A hint for the next error; None if that error is not shown, since the search for a hint is slow."""
        return None if self.full else did_you_mean(name, known, before)

    @property
    def has_errors(self) -> bool:
        return self.counts[Severity.ERROR] > 0

    @property
    def errors(self) -> int:
        """Number of errors, including those that are not shown."""
        return self.counts[Severity.ERROR]

    @property
    def full(self) -> bool:
        """Whether no further error is shown, so that checks may stop."""
        return self.full_of(Severity.ERROR)

    def full_of(self, severity: Severity) -> bool:
        """Whether no further finding of a severity is shown. A check may then `drop` a finding without making its
        text."""
        return self.counts[severity] >= MAX_DIAGNOSTICS

    def drop(self, severity: Severity) -> None:
        """Counts a finding that is not shown."""
        self.counts[severity] += 1
        self.dropped += 1


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str | None:
    """A hint with the closest known name, and the text `before` it; None if no name is close."""
    candidates = list(known)
    if len(candidates) > _MANY:
        # Comparing takes about 10 us a name, and a large application has 50,000.
        start = name[:2]
        candidates = [other for other in candidates if other[:2] == start and abs(len(other) - len(name)) <= 2]
    same = squeezed(name)
    close = [other for other in candidates if squeezed(other) == same]
    close = close or difflib.get_close_matches(name[:200], candidates[:_MANY], n=1, cutoff=0.6)
    return f"did you mean `{before}{close[0]}`?" if close else None


def squeezed(name: str) -> str:
    """A name without capitals, `-` and `_`: `MaxRequests`, `max-requests` and `max_requests` give the same result."""
    return name.replace("_", "").replace("-", "").lower()
