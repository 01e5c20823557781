"""Phrases that all renderings of a difference share: calls, places, sides, gates, levels.

A `Style` writes names and sentences of a `Diff` as plain text or as Markdown. Fixed words are the same in both.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from admc.base.decimals import significant
from admc.base.terminal import visible
from admc.compile.plan.model import SourceLine
from admc.review.diff.model import (
    CallName,
    Cause,
    CostLine,
    Diff,
    Finding,
    GateResult,
    How,
    Level,
    Move,
    Named,
    Taken,
    Verdict,
)
from dsl.program import Place, Side
from dsl.words import few


class Style(NamedTuple):
    name: Callable[[str], str]
    """Writes a name or a value of a program."""
    sentence: Callable[[str], str]
    """Writes a sentence in which names stand between backticks."""


TEXT: Final = Style(lambda name: f"`{visible(name)}`", visible)
NAMES: Final = 3
"""One phrase lists this many names, and counts the others."""
_NANO: Final = 10**9
_MEGA: Final = 10**6
_UNITS: Final = {
    "cpu": ("cores", _NANO),
    "memory": ("MB of memory", _MEGA),
    "latency_per_second": ("ms of latency in a second", _MEGA),
}


# ---- names, calls, places ----


def listed(names: Sequence[str], style: Style, most: int = NAMES) -> str:
    """The first `most` names with commas between them, and the number of the others."""
    return few([style.name(name) for name in names], most)


def call_names(calls: Sequence[CallName], most: int = NAMES) -> str:
    """Calls in a few words: `search, geo -> rate`.

    A destination has its port if the calls have several ports there. `*` is every caller, so it replaces other callers
    of the same port.

    >>> call_names([CallName("a", "c", 1), CallName("b", "c", 1)])
    'a, b -> c'
    >>> call_names([CallName("*", "c", 1), CallName("*", "c", 2), CallName("a", "c", 1)])
    '* -> c:1, c:2'
    """
    ports: dict[str, set[int]] = {}
    for call in calls:
        ports.setdefault(call.destination, set()).add(call.port)
    ends = [
        (call.source, f"{call.destination}:{call.port}" if len(ports[call.destination]) > 1 else call.destination)
        for call in calls
    ]
    open_to_all = {end for source, end in ends if source == "*"}
    ends = [(source, end) for source, end in ends if source == "*" or end not in open_to_all]
    sources, destinations = dict.fromkeys(end[0] for end in ends), dict.fromkeys(end[1] for end in ends)
    if len(sources) * len(destinations) == len(ends) and (len(sources) == 1 or len(destinations) == 1):
        return f"{few(list(sources), most)} -> {few(list(destinations), most)}"
    return few([f"{source} -> {destination}" for source, destination in ends], most)


class LinePlace(NamedTuple):
    """A line in a file of one side."""

    side: Taken
    is_base: bool
    path: str
    line: int

    @property
    def text(self) -> str:
        return f"{'BASE ' if self.is_base else ''}{self.path}:{self.line}"

    @property
    def in_column(self) -> str:
        """The path relative to the folder of the program, since a column is narrow. The last line names the folder."""
        folder = posixpath.dirname(self.side.path)
        path = self.path.removeprefix(f"{posixpath.normpath(folder)}/") if folder else self.path
        return f"{'BASE ' if self.is_base else ''}{path}:{self.line}"


def place(diff: Diff, finding: Finding) -> LinePlace | None:
    """The place of a finding: its line in HEAD, or in BASE if HEAD has no line; None if no side has one."""
    if finding.head_line is not None:
        return head_place(diff, finding.head_line)
    if finding.base_line is not None:
        return base_place(diff, finding.base_line)
    return None


def head_place(diff: Diff, line: SourceLine) -> LinePlace:
    return LinePlace(diff.head, False, _path(diff.head, line), line.line)


def base_place(diff: Diff, line: SourceLine) -> LinePlace:
    return LinePlace(diff.base, True, _path(diff.base, line), line.line)


def _path(side: Taken, line: SourceLine) -> str:
    """The path with the folder of its side. The prelude has no file, and an absolute path stays as it is."""
    folder = posixpath.dirname(side.path)
    if not folder or line.path.startswith(("/", "<")):
        return line.path
    return posixpath.normpath(posixpath.join(folder, line.path))


def place_phrase(move: Move, place: Place, hosts: Sequence[str], style: Style) -> str:
    """The place of a decision with its hosts: `ingress of `rate``, or `egress of `a`, `b``, or both, or `the network at
    `rate``."""
    if place is Place.NETWORK:
        return f"the network at {style.name(move.destination)}"
    parts = []
    if Side.INGRESS in place.sides:
        parts.append(f"ingress of {style.name(move.destination)}")
    if Side.EGRESS in place.sides:
        senders = [host for host in hosts if Side.INGRESS not in place.sides or host != move.destination]
        named = Side.INGRESS in (*move.base_place.sides, *move.head_place.sides)
        towards = "" if named else f" towards {style.name(move.destination)}"
        parts.append(f"egress of {listed(senders, style)}{towards}" if senders else f"egress{towards}")
    return " and ".join(parts)


def side_taken(side: Taken, style: Style) -> str:
    """The origin of a side: `main:policies.adm` at 1a2b3c4d5e6f (the plan beside it)."""
    phrase = style.name(side.name)
    if side.commit is not None:
        phrase += f" at {style.name(side.commit[:12])}"
    words = {
        How.PLAN: "a plan",
        How.BESIDE: "the plan beside it",
        How.COMPILED: "compiled",
        How.NOTHING: "not there",
        How.BROKEN: "broken",
    }
    why = f", since {style.sentence(side.why)}" if side.why and side.how is How.COMPILED else ""
    return f"{phrase} ({words[side.how]}{why})"


def gate_word(gate: GateResult) -> str:
    if gate.verdict is Verdict.BREACHED:
        return "fails" if gate.fails else "warns"
    return gate.verdict.value


def gate_text(gate: GateResult, style: Style) -> str:
    reason = f"; accepted: {style.sentence(gate.reason)}" if gate.reason else ""
    return f"{style.sentence(gate.text)}{reason}"


def signed(value: int, size: int) -> str:
    """A figure with its sign, in units of `size`.

    >>> signed(400_000_000, 10**9), signed(-5, 1), signed(0, 1)
    ('+0.4', '-5', '+0')
    """
    return ("" if value < 0 else "+") + significant(value / size, 3)


NO_CAUSES: Final = "No cause is known: that takes both programs, and a search."
NO_STEPS: Final = "Steps and waits are not known: they take both programs."


def lacks_causes(diff: Diff) -> bool:
    return all(move.cause is None for move in diff.moves)


def lacks_steps(diff: Diff) -> bool:
    return diff.rollout.steps is None


def cause_phrase(diff: Diff, cause: Cause, style: Style, shown: Callable[[LinePlace], str]) -> str:
    """A cause with its lines: `since call `geo -> rate` came (policies.adm:28)`."""
    all_places = [head_place(diff, line) for line in cause.lines]
    all_places += [base_place(diff, line) for line in cause.base_lines]
    at = f" ({few([shown(place) for place in all_places], NAMES)})" if all_places else ""
    return f"since {style.sentence(cause.text)}{at}"


def gap_phrase(name: str, levels: Sequence[Level]) -> str:
    """How far a plan may be from the best."""
    parts = []
    for level in levels:
        what, size = _LEVELS.get(level.metric, (level.metric, 1))
        value, bound = (_level(figure, size) for figure in (level.base, level.head))
        parts.append(f"{visible(what)} {value}, where {bound} may do")
    return f"{name} is not proven to be the best: {'; '.join(parts)}"


_LEVELS: Final = {
    "cpu": ("cores", _NANO),
    "overhead": ("cores", _NANO),
    "latency": ("ms of latency in a second", _MEGA),
    "closed": ("closed destinations", 1),
    "adms": ("ADMs", 1),
}


def level_row(level: Level) -> tuple[str, str, str, str]:
    """The name, the value before, the value after and the change of one level of the objective."""
    what, size = _LEVELS.get(level.metric, (level.metric, 1))
    change = "" if level.base is None or level.head is None else signed(level.head - level.base, size)
    return what, _level(level.base, size), _level(level.head, size), change


def _level(figure: int | None, size: int) -> str:
    return "unknown" if figure is None else significant(figure / size, 4)


def named_place(diff: Diff, named: Named) -> LinePlace | None:
    """The place of a part of the program: in BASE if it went, else in HEAD."""
    if named.line is None:
        return None
    return base_place(diff, named.line) if named.change == "went" else head_place(diff, named.line)


def unit(metric: str) -> tuple[str, int]:
    """The name of the unit in which the figures of a `CostLine` are shown, and its size."""
    return _UNITS.get(metric, (metric, 1))


def is_unpriced(line: CostLine) -> bool:
    """Whether a cost has no figure: a lower bound of zero."""
    return any(amount.at_least and not amount.value for amount in (line.base, line.head))


def change_text(line: CostLine) -> str:
    """The change of a cost: `+0.4`. If a sum lacks figures, the text adds that only the priced part is known."""
    if is_unpriced(line):
        return "unpriced"
    priced = " of what is priced" if line.base.at_least or line.head.at_least else ""
    return f"{signed(int(line.change), unit(line.metric)[1])}{priced}"
