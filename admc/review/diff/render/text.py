"""A difference of two plans as text for a terminal. Findings that are weaker come first."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from admc.base.columns import table
from admc.base.console import console_on
from admc.base.decimals import percent
from admc.base.terminal import visible
from admc.compile.plan.cost_line import amount_text
from admc.review.diff.model import Diff, Finding, How, Verdict, Word
from admc.review.diff.render import headline as first_line
from admc.review.diff.render import words
from admc.review.diff.render.rollout import configuration_only, order_of_rollout, redirection
from admc.review.diff.render.words import TEXT
from dsl.words import few

ROWS: Final = 25
"""A section shows this many rows, and counts the others."""
NARROW: Final = 76
"""On a narrower terminal each finding has its own lines, since columns of text would break words."""
_CALLS: Final = 36
_TONES: Final = {Word.LOST: "bold red", Word.REFUSED: "bold red", Word.UNCLEAR: "bold magenta"}
_VERDICTS: Final = {"fails": "bold red", "warns": "bold yellow", "accepted": "bold yellow", "not judged": "bold yellow"}


def render(diff: Diff, *, colour: bool = False, width: int = 100) -> str:
    stream = io.StringIO()
    console = console_on(stream, colour=colour, width=width)
    verdict, figures = first_line.headline(diff, TEXT)
    line = Text.assemble(
        (visible(diff.app), "bold"), ": ", (verdict, _tone(diff)), *(f"; {figure}" for figure in figures)
    )
    # The first line is never broken, so that a search of a log finds it.
    console.print(line, soft_wrap=True)
    if not first_line.is_equal(diff):
        console.print()
        _body(console, diff)
    return "".join(_inert(line.rstrip()) + "\n" for line in stream.getvalue().splitlines())


def _inert(line: str) -> str:
    """A line that GitHub's runner does not execute as a workflow command: names of users may begin a line.

    >>> _inert("  ::error::x"), _inert("a ##[group]x")
    ('  \\\\x3a:error::x', 'a \\\\x23#[group]x')
    """
    text = line.lstrip()
    if text.startswith("::"):
        line = f"{line[: -len(text)]}\\x3a{text[1:]}"
    return line.replace("##[", "\\x23#[")


def _tone(diff: Diff) -> str:
    if diff.weaker or first_line.refused_calls(diff):
        return "bold red"
    return "bold yellow" if first_line.doubts(diff, TEXT) else "bold green"


def _body(console: Console, diff: Diff) -> None:
    for doubt in first_line.doubts(diff, TEXT):
        _wrapped(console, Text(doubt, "bold yellow"), 0)
    _gates(console, diff)
    if diff.base.how is not How.BROKEN and not first_line.is_quiet(diff):
        _findings(console, diff, "weaker", diff.weaker)
        _findings(console, diff, "stricter", diff.stricter)
        if diff.gone:
            _findings(console, diff, Word.GONE_WITH_ITS_CALL.value, diff.gone)
        _moves(console, diff)
        _rollout(console, diff)
    _costs(console, diff)
    _gap(console, diff)
    _program(console, diff)
    _compared(console, diff)


def _heading(console: Console, text: str, phrase: str = "") -> None:
    console.print(Text.assemble((text, "bold"), f": {phrase}" if phrase else ""))


def _wrapped(console: Console, text: Text, indent: int, hanging: int = 2) -> None:
    """Print the text in lines no wider than the terminal. All lines but the first are indented by `hanging` more."""
    room = max(20, console.width - indent - hanging)
    for at, line in enumerate(text.wrap(console, room, overflow="fold")):
        console.print(Padding(line, (0, 0, 0, indent + (hanging if at else 0))), no_wrap=True, overflow="ignore")


def _rest(console: Console, number: int) -> None:
    if number > ROWS:
        console.print(Text(f"  ... and {number - ROWS} more; `--format json` has them all", style="dim"))


# ---- sections ----


def _gates(console: Console, diff: Diff) -> None:
    if not diff.gates:
        return
    shown = [gate for gate in diff.gates if gate.verdict is not Verdict.PASSED]
    passed = len(diff.gates) - len(shown)
    if not shown:
        _heading(console, "gates", f"{passed} passed")
        return
    _heading(console, "gates", f"{passed} passed" if passed else "")
    rows = []
    for gate in shown[:ROWS]:
        word = words.gate_word(gate)
        at = words.base_place(diff, gate.line).in_column
        sentence = f"{'fail' if gate.fails else 'warn'} when {visible(gate.condition)}: {words.gate_text(gate, TEXT)}"
        rows.append((Text(word, _VERDICTS[word]), visible(gate.name), sentence, visible(at)))
    _columns(console, rows)
    _rest(console, len(shown))


def _findings(console: Console, diff: Diff, title: str, findings: Sequence[Finding]) -> None:
    if not findings:
        _heading(console, title, first_line.nothing_found(diff))
        return
    _heading(console, title)
    rows = []
    for finding in findings[:ROWS]:
        at = words.place(diff, finding)
        calls = visible(words.call_names(finding.calls)) if finding.calls else "-"
        word = Text(finding.word.value, _TONES.get(finding.word, "yellow" if title == "weaker" else ""))
        rows.append((word, calls, visible(finding.text), visible(at.in_column) if at else ""))
    _columns(console, [row if title in ("weaker", "stricter") else (Text(""), *row[1:]) for row in rows])
    _rest(console, len(findings))


def _columns(console: Console, rows: Sequence[tuple[Text, str, str, str]]) -> None:
    """Print rows of a word, its subject, a sentence that may be broken, and a place."""
    if console.width < NARROW:
        for word, subject, sentence, at in rows:
            _wrapped(console, Text.assemble(word, "  " if word.plain else "", subject), 2)
            _wrapped(console, Text(sentence), 4)
            if at:
                _wrapped(console, Text(at, "dim"), 4)
        return
    grid = Table(box=None, show_header=False, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    if any(row[0].plain for row in rows):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold", max_width=_CALLS)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold", style="dim", max_width=_CALLS)
    for word, subject, sentence, at in rows:
        # One more blank separates the place from the sentence.
        cells = (Text(subject), Padding(Text(sentence), (0, 1, 0, 0)), Text(at))
        grid.add_row(*((word, *cells) if any(row[0].plain for row in rows) else cells))
    console.print(Padding(grid, (0, 0, 0, 2)))


def _moves(console: Console, diff: Diff) -> None:
    if not diff.moves:
        _heading(console, "moved", "nothing")
        return
    _heading(console, "moved")
    shown = diff.moves[:ROWS]
    named = table([[move.policy] for move in shown])
    room = max(len(name) for name in named)
    for move, name in zip(shown, named, strict=True):
        before = words.place_phrase(move, move.base_place, move.base_hosts, TEXT)
        after = words.place_phrase(move, move.head_place, move.head_hosts, TEXT)
        _wrapped(console, Text(f"{name:<{min(room, _CALLS)}}  {before} -> {after}"), 2)
        if move.cause is not None:
            _wrapped(
                console,
                Text(words.cause_phrase(diff, move.cause, TEXT, lambda place: visible(place.text))),
                4,
            )
    _rest(console, len(diff.moves))
    if words.lacks_causes(diff):
        _wrapped(console, Text(words.NO_CAUSES, "dim"), 2)


def _rollout(console: Console, diff: Diff) -> None:
    order = order_of_rollout(diff.rollout, TEXT)
    others = [*redirection(diff, TEXT), *configuration_only(diff.rollout, visible)]
    if not order and not others:
        _heading(console, "rollout", "nothing changes")
        return
    _heading(console, "rollout")
    for line in ["; ".join(order)] if order else []:
        _wrapped(console, Text(line), 2)
    for line in others:
        _wrapped(console, Text(line), 2)
    if words.lacks_steps(diff):
        _wrapped(console, Text(words.NO_STEPS, "dim"), 2)


def _costs(console: Console, diff: Diff) -> None:
    cost = diff.cost
    if cost.reason is not None or not cost.lines:
        return
    if cost.reason is None and cost.profile is not None:
        _heading(console, "cost", f"by the profile {visible(cost.profile.named)}")
    rows = []
    for line in cost.lines:
        unit, size = words.unit(line.metric)
        share = "" if line.base.at_least or line.head.at_least else percent(int(line.change), line.base.value)
        before, after = amount_text(line.base, size), amount_text(line.head, size)
        rows.append((unit, before, "->", after, words.change_text(line), share))
    for row in table(rows, right=(1, 3), indent="  "):
        _wrapped(console, Text(row), 0)


def _gap(console: Console, diff: Diff) -> None:
    for name, levels in (("BASE", diff.gap.base), ("HEAD", diff.gap.head)):
        if levels:
            _wrapped(console, Text(words.gap_phrase(name, levels)), 0)


def _program(console: Console, diff: Diff) -> None:
    """Print renames, and the changes of the program if no other section shows them."""
    if diff.renames:
        renames = [f"`{visible(rename.base)}` -> `{visible(rename.head)}`" for rename in diff.renames]
        _wrapped(console, Text(f"renamed: {few(renames, ROWS)}"), 0)
    if not first_line.is_quiet(diff) or not diff.program:
        return
    _heading(console, "program")
    rows = []
    for named in diff.program[:ROWS]:
        at = words.named_place(diff, named)
        subject = visible(f"{named.kind} {named.name}")
        rows.append(
            (Text(visible(named.change)), subject, visible(named.text or ""), visible(at.in_column) if at else "")
        )
    _columns(console, rows)
    _rest(console, len(diff.program))


def _compared(console: Console, diff: Diff) -> None:
    base, head = words.side_taken(diff.base, TEXT), words.side_taken(diff.head, TEXT)
    _wrapped(console, Text(f"compared: BASE {base}, HEAD {head}", "dim"), 0)
    notes = first_line.notes(diff)
    for note in notes[:ROWS]:
        _wrapped(console, Text(f"note: {visible(note)}"), 0)
    _rest(console, len(notes))
