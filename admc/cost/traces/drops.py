"""Counts the traces that are left out. Each reason has a code, its trees and calls, and the first such trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple


class Reason(IntEnum):
    """Why a tree is dropped. If several reasons apply, the first in this order counts."""

    UNUSABLE = 0
    NO_ROOT = 1
    TWO_ROOTS = 2
    CYCLE = 3
    CUT_OFF = 4
    IDS = 5
    TOO_LARGE = 6
    UNKNOWN_SERVICE = 7
    UNDECLARED_CALL = 8
    UNCLEAR_CALL = 9
    CLOCK = 10
    RARE = 11


class Text(NamedTuple):
    code: str
    message: str
    hint: str


TEXTS: Final = {
    Reason.TOO_LARGE: Text(
        "ADM892",
        "the trace is beyond the limits of size, depth or time",
        "a trace has at most 100,000 calls, 200 levels and one hour",
    ),
    Reason.UNUSABLE: Text(
        "ADM893",
        "the trace has a row or span that cannot be used",
        "what it called is not known, so the trace is not whole; each needs an id, its times and a kind that is known",
    ),
    Reason.NO_ROOT: Text(
        "ADM883",
        "the first call of the trace is missing",
        "a trace begins with the call from outside; `--partial` takes spans from the first one that is there",
    ),
    Reason.TWO_ROOTS: Text("ADM884", "the trace has two first calls", "each request has a trace of its own"),
    Reason.CYCLE: Text("ADM885", "a call of the trace is its own ancestor", "mend the ids of the spans"),
    Reason.CUT_OFF: Text(
        "ADM887", "the trace is cut off: the parent of a call is missing", "export whole traces, sampled at their start"
    ),
    Reason.IDS: Text(
        "ADM888", "the ids of the trace contradict each other", "the caller of a call is the service that was called"
    ),
    Reason.UNKNOWN_SERVICE: Text(
        "ADM889",
        "the trace has a service that the program does not have",
        "declare the service; or give `--names FILE`, which maps what traces call it",
    ),
    Reason.UNDECLARED_CALL: Text(
        "ADM890", "the trace has a call that the program does not declare", "declare the call"
    ),
    Reason.UNCLEAR_CALL: Text(
        "ADM891",
        "the trace does not say which of several declared calls a call is",
        "the ports of one callee, and several outside callers, look alike in a trace",
    ),
    Reason.CLOCK: Text(
        "ADM886", "a clock runs back: a call begins before its caller, or ends before it begins", "mend the clocks"
    ),
    Reason.RARE: Text(
        "ADM895", "the shape of the trace is one of too many", "the most frequent 1,000 shapes become requests"
    ),
}


class Note(StrEnum):
    """Content of the files that is skipped or changed, although no trace is dropped for it."""

    TORN = "torn"
    OTHER_SIGNALS = "other_signals"
    CLOCK = "clock"
    PARTIAL = "partial"


NOTES: Final = {
    Note.TORN: ("skipped: {} of a file that is cut off", "last line", "last lines"),
    Note.OTHER_SIGNALS: ("skipped: {} of logs, metrics or profiles", "document", "documents"),
    Note.CLOCK: (
        "moved into the call of its caller: {} of a service whose clock differs, without a span of the client",
        "call",
        "calls",
    ),
    Note.PARTIAL: ("taken from its first span: {} whose first call is missing (--partial)", "trace", "traces"),
}


class TraceStart(NamedTuple):
    """Where a trace begins: the file, and the number of the row or span in it, from 1."""

    file: str
    what: str
    """`row` or `span`."""
    number: int
    trace: str


class Dropped(NamedTuple):
    reason: Reason
    trees: int
    calls: int
    first: TraceStart | None
    """None if no place is known."""
    names: tuple[str, ...] = ()
    """Unknown services, or undeclared or unclear calls, the most frequent first."""


NAMES: Final = 1000
"""Most names that are counted for a reason; names that come later are not listed."""


class Drops:
    """The counts of all that is left out."""

    def __init__(self) -> None:
        self._trees: Counter[Reason] = Counter()
        self._calls: Counter[Reason] = Counter()
        self._first: dict[Reason, TraceStart | None] = {}
        self._names: dict[Reason, Counter[str]] = {}
        self.duplicates = 0
        """Rows or spans that are equal to one that is taken."""
        self.malformed = 0
        """Rows or spans without a usable trace, id, time or kind. Their traces, if known, are dropped."""
        self.first_malformed = ""
        self._notes: Counter[Note] = Counter()

    def add(self, reason: Reason, trees: int, calls: int, first: Callable[[], TraceStart | None]) -> None:
        """Count trees and calls. If the reason is new, `first` is called for the start of its first trace."""
        if reason not in self._first:
            self._first[reason] = first()
        self._trees[reason] += trees
        self._calls[reason] += calls

    def name(self, reason: Reason, name: str, count: int = 1) -> None:
        """Count a name for which trees are dropped, such as that of an unknown service."""
        names = self._names.setdefault(reason, Counter())
        if name in names or len(names) < NAMES:
            names[name] += count

    def skip(self, count: int, first: str) -> None:
        if count and not self.malformed:
            self.first_malformed = first
        self.malformed += count

    def note(self, note: Note, count: int = 1) -> None:
        self._notes[note] += count

    def notes(self) -> tuple[tuple[Note, int], ...]:
        return tuple((note, self._notes[note]) for note in Note if self._notes[note])

    def _most_frequent(self, reason: Reason) -> tuple[str, ...]:
        names = self._names.get(reason) or Counter[str]()
        return tuple(sorted(names, key=lambda name: (-names[name], name)))

    def all(self) -> tuple[Dropped, ...]:
        return tuple(
            Dropped(
                reason,
                self._trees[reason],
                self._calls[reason],
                self._first[reason],
                self._most_frequent(reason),
            )
            for reason in Reason
            if self._trees[reason]
        )
