"""The one diagnostic model: what went wrong, where, why, and what to do.

Errors are collected, not raised, so that a user sees all of a file's errors in one run. Rendering (text, JSON, SARIF,
...) belongs to the application.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from dsl.text import Span

MAX_DIAGNOSTICS = 100


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Related(NamedTuple):
    """A second place that belongs to the cause, such as the earlier of two definitions."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `message` is lower case, without a final period, with backticks round what the user wrote."""

    code: str
    severity: Severity
    message: str
    span: Span | None
    cause: str | None = None
    hint: str | None = None
    related: tuple[Related, ...] = ()


class ProgramError(Exception):
    """The input is wrong: carries every diagnostic of the run, errors and warnings, in the order of their places."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics[:3]))


@dataclass
class Diagnostics:
    """Collects findings; keeps at most `MAX_DIAGNOSTICS` and counts the rest."""

    items: list[Diagnostic] = field(default_factory=list)
    dropped: int = 0

    def add(self, diagnostic: Diagnostic) -> None:
        if len(self.items) < MAX_DIAGNOSTICS:
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

    @property
    def has_errors(self) -> bool:
        return any(item.severity is Severity.ERROR for item in self.items) or self.dropped > 0


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint naming the closest known name, or None where nothing is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else None
