"""Finds the few earlier matches that may hold together with a new match, without a look at each pair.

`dsl.checks.disjoint` proves that the two matches of a pair never hold together. Hundreds of policies on one call are
100,000 pairs, and a single comparison keeps nearly every pair apart: the matches require different values of a field,
different beginnings of it, or a comparison and its negation. A set of conjunctions is a whole number here, with a bit
for each conjunction, so that a new match is compared with all earlier ones at once. The remaining pairs are few, and
get the full proof.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from dsl.checks.disjoint import canonical, conjunctions
from dsl.match import Operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.checks.disjoint import Written
    from dsl.match import Field, Match


class Comparing(NamedTuple):
    """One comparison of a field, with `!=` as the negation of `==`."""

    field: Field
    operator: Operator
    value: str
    holds: bool


class Required(NamedTuple):
    """The comparisons that one conjunction requires."""

    comparisons: tuple[Comparing, ...]
    beginnings: tuple[Comparing, ...]
    """The narrowest value or beginning of each field other than a header. A header may have several values at once, so
    two different values are no contradiction."""
    barred: tuple[Comparing, ...]
    """The beginnings that fields other than headers must not have."""


def required(match: Match | None) -> tuple[Required, ...]:
    """The conjunctions of a match. A match with too many conjunctions counts as one that requires nothing."""
    ways = None if match is None else conjunctions(match)
    if ways is None:
        return (Required((), (), ()),)
    return tuple(
        _required([Comparing(literal.comparison.field, *canonical(literal)) for literal in conjunction])
        for conjunction in ways
    )


def _required(comparisons: Sequence[Comparing]) -> Required:
    beginnings: dict[Field, Comparing] = {}
    for comparison in comparisons:
        if (
            comparison.field.header is None
            and comparison.holds
            and comparison.operator in (Operator.EQUALS, Operator.STARTS_WITH)
        ):
            beginnings[comparison.field] = max(
                beginnings.get(comparison.field, comparison), comparison, key=_narrowness
            )
    barred = (
        comparison
        for comparison in comparisons
        if comparison.field.header is None and not comparison.holds and comparison.operator is Operator.STARTS_WITH
    )
    return Required(tuple(comparisons), tuple(beginnings.values()), tuple(barred))


def _narrowness(beginning: Comparing) -> tuple[bool, int]:
    return beginning.operator is Operator.EQUALS, len(beginning.value)


class _Texts:
    """Text -> the set of conjunctions that require it."""

    def __init__(self) -> None:
        self.all = 0
        self._held: dict[str, int] = {}
        self._sorted: list[str] = []
        self._lengths: set[int] = set()

    def add(self, text: str, bit: int) -> None:
        if text not in self._held:
            insort(self._sorted, text)
            self._lengths.add(len(text))
        self._held[text] = self._held.get(text, 0) | bit
        self.all |= bit

    def at(self, text: str) -> int:
        return self._held.get(text, 0)

    def that_begin(self, text: str) -> int:
        """The conjunctions whose text is equal to `text` or a beginning of it."""
        bits = 0
        for length in self._lengths:
            if length <= len(text):
                bits |= self._held.get(text[:length], 0)
        return bits

    def beginning_with(self, text: str) -> int:
        bits = 0
        place = bisect_left(self._sorted, text)
        while place < len(self._sorted) and self._sorted[place].startswith(text):
            bits |= self._held[self._sorted[place]]
            place += 1
        return bits


class _OfField:
    """The conjunctions that compare one field, by their comparisons."""

    def __init__(self) -> None:
        self._same: dict[tuple[Operator, str, bool], int] = {}
        self._whole = _Texts()
        self._prefix = _Texts()
        self._barred = _Texts()

    def compare(self, comparison: Comparing, bit: int) -> None:
        key = comparison.operator, comparison.value, comparison.holds
        self._same[key] = self._same.get(key, 0) | bit

    def begin(self, comparison: Comparing, bit: int) -> None:
        (self._whole if comparison.operator is Operator.EQUALS else self._prefix).add(comparison.value, bit)

    def bar(self, comparison: Comparing, bit: int) -> None:
        self._barred.add(comparison.value, bit)

    def negating(self, comparison: Comparing) -> int:
        return self._same.get((comparison.operator, comparison.value, not comparison.holds), 0)

    def apart_from_beginning(self, comparison: Comparing) -> int:
        fitting = self._prefix.that_begin(comparison.value)
        if comparison.operator is Operator.EQUALS:
            fitting |= self._whole.at(comparison.value)
        else:
            fitting |= self._whole.beginning_with(comparison.value) | self._prefix.beginning_with(comparison.value)
        return ((self._whole.all | self._prefix.all) & ~fitting) | self._barred.that_begin(comparison.value)

    def apart_from_bar(self, comparison: Comparing) -> int:
        return self._whole.beginning_with(comparison.value) | self._prefix.beginning_with(comparison.value)


class Apart:
    """The matches of the policies that a request meets one after the other, by the fields that they compare.

    A policy that writes a field changes its value for all later matches, so `write` forgets the field.
    """

    def __init__(self) -> None:
        self._owners: list[int] = []
        self._fields: dict[Field, _OfField] = {}

    def add(self, owner: int, match: Sequence[Required]) -> None:
        """Adds the match of a policy. `owner` is the policy's number, which `others` returns."""
        for conjunction in match:
            bit = 1 << len(self._owners)
            self._owners.append(owner)
            for comparison in conjunction.comparisons:
                self._fields.setdefault(comparison.field, _OfField()).compare(comparison, bit)
            for comparison in conjunction.beginnings:
                self._fields[comparison.field].begin(comparison, bit)
            for comparison in conjunction.barred:
                self._fields[comparison.field].bar(comparison, bit)

    def others(self, match: Sequence[Required]) -> Iterator[int]:
        """The owners whose matches no comparison here keeps apart from `match`, in the order in which they were
        added."""
        every = (1 << len(self._owners)) - 1
        left = 0
        for conjunction in match:
            left |= every & ~self._apart(conjunction)
        last = None
        while left:
            lowest = left & -left
            owner = self._owners[lowest.bit_length() - 1]
            if owner != last:
                yield owner
            last = owner
            left ^= lowest

    def _apart(self, conjunction: Required) -> int:
        bits = 0
        for comparison in conjunction.comparisons:
            if (known := self._fields.get(comparison.field)) is not None:
                bits |= known.negating(comparison)
        for comparison in conjunction.beginnings:
            if (known := self._fields.get(comparison.field)) is not None:
                bits |= known.apart_from_beginning(comparison)
        for comparison in conjunction.barred:
            if (known := self._fields.get(comparison.field)) is not None:
                bits |= known.apart_from_bar(comparison)
        return bits

    def write(self, written: Written) -> None:
        """Notes that a policy may write these fields before the next match that is added."""
        self._fields = {field: known for field, known in self._fields.items() if not written.has(field)}
