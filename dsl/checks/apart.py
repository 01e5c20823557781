"""Which of many matches nothing obvious keeps apart from a new one, without a look at each pair.

`dsl.checks.disjoint` proves that one pair never holds together. Hundreds of policies on one call are 100,000 pairs.
Nearly all are kept apart by one comparison: another value of the same field, another beginning of it, or the same
comparison negated. Sets of conjunctions are whole numbers here, a bit for each, so that a new match is compared with
all earlier ones at once. What is left over is a short list for the full proof.
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
    """What one conjunction requires."""

    comparisons: tuple[Comparing, ...]
    beginnings: tuple[Comparing, ...]
    """For a field other than a header: its value, or what it begins with. A header may have several values at once, so
    another value contradicts nothing there."""
    barred: tuple[Comparing, ...]
    """For a field other than a header: what it does not begin with."""


def required(match: Match | None) -> tuple[Required, ...]:
    """The conjunctions of a match; a match that is too large to look at requires nothing."""
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
    """Sets of conjunctions by a text."""

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
        """Those whose text is the beginning of this one, or all of it."""
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
    """Conjunctions by what they require of one field."""

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
    """Matches of policies that a request meets one after the other, and what is known of the fields that they compare.

    What a policy writes has another value for each match after it, so `write` forgets it.
    """

    def __init__(self) -> None:
        self._owners: list[int] = []
        self._fields: dict[Field, _OfField] = {}

    def add(self, owner: int, match: Sequence[Required]) -> None:
        """`owner`: the number by which `others` names it."""
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
        """The owners that nothing here keeps apart from a match, in the order in which they came."""
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
        """A policy that may write this stands here."""
        self._fields = {field: known for field, known in self._fields.items() if not written.has(field)}
