"""Finds loosened, tightened and unclear arguments, by the directions that BASE's kind declares (`@weaker`).

    change of an argument                                               finding
    its value moves in the declared direction                           loosened
    its value moves against the declared direction                      tightened
    a number that has a direction is left out in HEAD (no limit left)   loosened
    a number that has a direction is given in HEAD alone                tightened
    no direction is declared, or a file has another content             unclear

A list with a direction is compared as a set. `Contents` are one policy as BASE and HEAD have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from admc.compile.plan.model import ArgumentRow
from admc.review.diff.model import Change, Word
from admc.review.diff.protection.comparison import Comparison, Contents
from admc.review.diff.protection.note import Note
from admc.review.diff.written import argument_text
from dsl.program import Weaker

MOST_CHARACTERS = 200
"""The characters of one value in a sentence."""
_SETS = frozenset(("[caller]", "[one_of]"))


def changed_arguments(comparison: Comparison) -> Iterator[Note]:
    for contents in comparison.contents:
        if comparable(comparison, contents):
            yield from _changed(comparison, contents)


def comparable(comparison: Comparison, contents: Contents) -> bool:
    """Whether BASE and HEAD have the same kind with the same parameters. If not, `kinds` reports the kind."""
    base, head = contents.pair.base or "", contents.pair.head or ""
    return comparison.base.rows[base].kind == comparison.head.rows[head].kind and _shape(
        contents.base.arguments
    ) == _shape(contents.head.arguments)


def _shape(arguments: tuple[ArgumentRow, ...]) -> list[tuple[str, str]]:
    return sorted((argument.name, argument.type) for argument in arguments)


def _changed(comparison: Comparison, contents: Contents) -> Iterator[Note]:
    after = {argument.name: argument for argument in contents.head.arguments}
    judges = contents.base.judges_caller_alone and contents.head.judges_caller_alone
    told: list[tuple[ArgumentRow, ArgumentRow]] = []
    for argument in contents.base.arguments:
        other = after[argument.name]
        if same(argument, other) or (judges and argument.type == "[caller]"):
            continue
        if any(_follows(argument, other, *earlier) for earlier in told):
            continue
        told.append((argument, other))
        change = Change(argument.name, argument_text(argument), argument_text(other))
        text = _text(contents.pair.name, argument, other, change)
        for word in directions(argument, other):
            yield comparison.note(word, contents.pair, comparison.shared(contents.pair), text, change)


def same(one: ArgumentRow, other: ArgumentRow) -> bool:
    if one.sha256 is not None or other.sha256 is not None:
        return one.sha256 == other.sha256
    if isinstance(one.value, tuple) and isinstance(other.value, tuple) and _is_set(one):
        return set(one.value) == set(other.value)
    # In Python, 1 and True are equal.
    return one.value == other.value and isinstance(one.value, bool) is isinstance(other.value, bool)


def directions(one: ArgumentRow, other: ArgumentRow) -> tuple[Word, ...]:
    """The findings for a change of an argument. A list that loses some items and gets others has two of them."""
    weaker = one.weaker
    before: object = one.value
    after: object = other.value
    if weaker is None:
        return (Word.UNCLEAR,)
    if isinstance(before, tuple) and isinstance(after, tuple):
        if weaker is Weaker.MORE or weaker is Weaker.LESS:
            return (Word.UNCLEAR,)
        came, went = set(after) - set(before), set(before) - set(after)
        more, less = (Word.LOOSENED, Word.TIGHTENED) if weaker is Weaker.ADDED else (Word.TIGHTENED, Word.LOOSENED)
        return tuple(word for word, items in ((more, came), (less, went)) if items)
    if before is None or after is None:
        if weaker is Weaker.ADDED or weaker is Weaker.REMOVED:
            return (Word.UNCLEAR,)
        return (Word.LOOSENED if after is None else Word.TIGHTENED,)
    if isinstance(before, int | float) and isinstance(after, int | float):
        grows = weaker in (Weaker.MORE, Weaker.ADDED)
        return (Word.LOOSENED if (after > before) is grows else Word.TIGHTENED,)
    return (Word.UNCLEAR,)


def _is_set(argument: ArgumentRow) -> bool:
    return argument.type in _SETS or argument.weaker is not None


def _follows(one: ArgumentRow, other: ArgumentRow, first: ArgumentRow, then: ArgumentRow) -> bool:
    """Whether an argument changes exactly like an earlier one, as a default that repeats it: `burst = requests`."""
    return (one.type, one.weaker, one.value, other.value) == (first.type, first.weaker, first.value, then.value)


def _text(policy: str, one: ArgumentRow, other: ArgumentRow, change: Change) -> str:
    if one.sha256 is not None and one.value == other.value:
        return f"`{policy}`: `{one.name}` has another content"
    return f"`{policy}`: {one.name} {_short(change.base)} -> {_short(change.head)}"


def _short(text: str | None) -> str:
    """The text of a value, cut for a sentence: the finding's `Change` has the whole text."""
    if text is None:
        return "none"
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
