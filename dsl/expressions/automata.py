"""Texts that several expressions match and others do not: the shortest one, or the proof that there is none."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.expressions.syntax import LAST, Begin, Choice, End, Letters, Node, Ranges, Repeat, UndecidedError, parse
from dsl.expressions.syntax import Sequence as Concatenation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_STEPS: Final = 20_000
"""Most steps of a search."""
MAX_STATES: Final = 4_000
"""Most states of one expression. Expressions of `patterns.MAX_INSTRUCTIONS`, the bound for RE2, have far fewer."""

State = frozenset[int]
_PLEASANT: Final = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ/.-_=:!$&'()*+,;@~%"
"""Letters of the texts that a search prefers, the first most."""


class Expression:
    """An expression as an automaton over letters. It has to match a whole text."""

    def __init__(self, node: Node) -> None:
        self._free: list[list[int]] = []
        self._begin: list[list[int]] = []
        self._end: list[list[int]] = []
        self._letters: list[list[tuple[Ranges, int]]] = []
        self._steps: dict[tuple[State, int], State] = {}
        self.ends: set[int] = set()
        """Code points at which the meaning of letters may change."""
        first = self._new()
        self._last = self._build(node, first)
        self.start: State = self._closure({first}, begin=True)

    def step(self, state: State, letter: int) -> State:
        """The state after one more letter. An empty state accepts no continuation."""
        key = state, letter
        following = self._steps.get(key)
        if following is None:
            reached = {
                target
                for node in state
                for ranges, target in self._letters[node]
                if any(low <= letter <= high for low, high in ranges)
            }
            following = self._steps[key] = self._closure(reached)
        return following

    def accepts(self, state: State) -> bool:
        return self._last in self._closure(set(state), begin=state is self.start, end=True)

    def matches(self, text: str) -> bool:
        return _matches(self, text)

    def _closure(self, states: set[int], *, begin: bool = False, end: bool = False) -> State:
        left = list(states)
        while left:
            node = left.pop()
            following = [*self._free[node], *(self._begin[node] if begin else ()), *(self._end[node] if end else ())]
            for other in following:
                if other not in states:
                    states.add(other)
                    left.append(other)
        return frozenset(states)

    def _new(self) -> int:
        if len(self._free) >= MAX_STATES:
            raise UndecidedError
        for edges in (self._free, self._begin, self._end):
            edges.append([])
        self._letters.append([])
        return len(self._free) - 1

    def _build(self, node: Node, first: int) -> int:
        """Adds the automaton of a node behind a state, and returns its last state."""
        if isinstance(node, Concatenation):
            for part in node.parts:
                first = self._build(part, first)
            return first
        last = self._new()
        if isinstance(node, Letters):
            self._letters[first].append((node.ranges, last))
            self.ends.update(low for low, _ in node.ranges)
            self.ends.update(high + 1 for _, high in node.ranges)
        elif isinstance(node, Begin):
            self._begin[first].append(last)
        elif isinstance(node, End):
            self._end[first].append(last)
        elif isinstance(node, Choice):
            for part in node.parts:
                self._free[self._build(part, first)].append(last)
        elif isinstance(node, Repeat):
            self._repeat(node, first, last)
        return last

    def _repeat(self, node: Repeat, first: int, last: int) -> None:
        for _ in range(node.least):
            first = self._build(node.part, first)
        if node.most is None:
            again = self._new()
            self._free[first].append(again)
            self._free[again].append(last)
            self._free[self._build(node.part, again)].append(again)
            return
        self._free[first].append(last)
        for _ in range(node.most - node.least):
            first = self._build(node.part, first)
            self._free[first].append(last)


class Words:
    """The texts that are one of some words, or begin with one of some words: a tree of their letters."""

    def __init__(self, words: Iterable[str], *, prefixes: bool = False) -> None:
        self._children: list[dict[int, int]] = [{}]
        self._whole: set[int] = set()
        self._prefixes = prefixes
        self.ends: set[int] = set()
        for word in words:
            node = 0
            for letter in map(ord, word):
                if letter not in self._children[node]:
                    self._children[node][letter] = len(self._children)
                    self._children.append({})
                    self.ends.update((letter, letter + 1))
                node = self._children[node][letter]
            self._whole.add(node)
        self.start: State = frozenset((0,))

    def step(self, state: State, letter: int) -> State:
        if self._prefixes and self.accepts(state):
            return state
        return frozenset(self._children[node][letter] for node in state if letter in self._children[node])

    def accepts(self, state: State) -> bool:
        return not self._whole.isdisjoint(state)

    def matches(self, text: str) -> bool:
        return _matches(self, text)


Language = Expression | Words


def _matches(language: Language, text: str) -> bool:
    state = language.start
    for letter in text:
        state = language.step(state, ord(letter))
    return language.accepts(state)


class Condition(NamedTuple):
    """The condition that a text is in a language, or is not in it (`wanted` is False)."""

    language: Language
    wanted: bool = True


@lru_cache(maxsize=1024)
def expression(pattern: str) -> Expression:
    """The automaton of an RE2 expression. Raises `UndecidedError`."""
    return Expression(parse(pattern))


def shortest(conditions: Sequence[Condition], beginning: str = "") -> str | None:
    """The shortest text with this beginning that satisfies all conditions; None is the proof that there is none.

    Raises `UndecidedError` after too many steps.
    """
    first = [condition.language.start for condition in conditions]
    for letter in map(ord, beginning):
        first = [condition.language.step(state, letter) for condition, state in zip(conditions, first, strict=True)]
        if _hopeless(conditions, first):
            return None
    letters = representatives(conditions)
    start = tuple(first)
    came: dict[tuple[State, ...], tuple[tuple[State, ...], int] | None] = {start: None}
    waiting = deque([start])
    steps = 0
    while waiting:
        states = waiting.popleft()
        if all(
            condition.language.accepts(state) is condition.wanted
            for condition, state in zip(conditions, states, strict=True)
        ):
            return beginning + _text(came, states)
        for letter in letters:
            steps += 1
            if steps > MAX_STEPS:
                raise UndecidedError
            following = tuple(
                condition.language.step(state, letter) for condition, state in zip(conditions, states, strict=True)
            )
            if following not in came and not _hopeless(conditions, following):
                came[following] = states, letter
                waiting.append(following)
    return None


def _hopeless(conditions: Sequence[Condition], states: Iterable[State]) -> bool:
    return any(condition.wanted and not state for condition, state in zip(conditions, states, strict=True))


def _text(came: dict[tuple[State, ...], tuple[tuple[State, ...], int] | None], states: tuple[State, ...]) -> str:
    letters = []
    step = came[states]
    while step is not None:
        states, letter = step
        letters.append(chr(letter))
        step = came[states]
    return "".join(reversed(letters))


def representatives(conditions: Sequence[Condition]) -> list[int]:
    """One letter of each class of letters that no language tells apart; those that are pleasant to read come first."""
    ends = sorted({0, *(end for condition in conditions for end in condition.language.ends if end <= LAST)})
    order = {ord(letter): index for index, letter in enumerate(_PLEASANT)}
    letters = []
    for low, following in zip(ends, [*ends[1:], LAST + 1], strict=True):
        pleasant = [letter for letter in order if low <= letter < following]
        letters.append(min(pleasant, key=order.__getitem__) if pleasant else low)
    return sorted(letters, key=lambda letter: (order.get(letter, len(order)), letter))
