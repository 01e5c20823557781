"""Finds policies whose `when` holds for fewer (narrowed) or more requests (widened), or for others (unclear).

A match `M` implies `N` if no request satisfies both `M` and `not N`, which `dsl.checks.disjoint` may prove. Without a
proof the change is unclear; regular expressions are not analysed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from admc.review.diff.model import Change, Word
from admc.review.diff.protection.comparison import Comparison
from admc.review.diff.protection.note import Note
from dsl.checks.disjoint import disjoint
from dsl.match import Match, Not
from dsl.resolve.match_parser import MatchTextError, parse_match

_TEXTS = {
    Word.NARROWED: "holds for fewer requests",
    Word.WIDENED: "holds for more requests",
    Word.UNCLEAR: "holds for other requests; that these include those of BASE is not proven",
}


def changed_matches(comparison: Comparison) -> Iterator[Note]:
    for contents in comparison.contents:
        before, after = contents.base.when, contents.head.when
        word = None if before == after else direction(before, after)
        if word is not None:
            change = Change("when", before, after)
            text = f"`when` of `{contents.pair.name}` {_TEXTS[word]}"
            yield comparison.note(word, contents.pair, comparison.shared(contents.pair), text, change)


def direction(before: str | None, after: str | None) -> Word | None:
    """The word for the change of a match; None if both matches hold for the same requests."""
    try:
        one, other = _match(before), _match(after)
    except MatchTextError:
        return Word.UNCLEAR
    forward, back = implies(other, one), implies(one, other)
    if forward and back:
        return None
    return Word.NARROWED if forward else Word.WIDENED if back else Word.UNCLEAR


def implies(one: Match | None, other: Match | None) -> bool:
    """Whether it is proven that each request of `one` satisfies `other`. Every request satisfies the match None."""
    return other is None or disjoint(one, Not(other))


def exclude_each_other(one: str | None, other: str | None) -> bool:
    """Whether it is proven that no request satisfies both matches."""
    try:
        return disjoint(_match(one), _match(other))
    except MatchTextError:
        return False


@lru_cache(maxsize=4096)
def _match(text: str | None) -> Match | None:
    return None if text is None else parse_match(text)
