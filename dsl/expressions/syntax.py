"""Parses RE2 expressions, to find out which texts they match.

RE2 itself has accepted the expression. The parser raises `UndecidedError` for parts that it does not analyse (such
as word boundaries, Unicode classes, anchors of lines and letters beyond ASCII): the texts of the expression are then
unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

LAST: Final = 0x10FFFF
"""The largest code point."""
Ranges = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included."""


class UndecidedError(Exception):
    """The answer takes too many steps, or depends on a part of an expression that is not analysed."""


@dataclass(frozen=True, slots=True)
class Letters:
    """One letter of some ranges."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of the text."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the text."""


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None


Node = Letters | Begin | End | Sequence | Choice | Repeat

_EVERY: Final[Ranges] = ((0, LAST),)
_DIGIT: Final[Ranges] = ((0x30, 0x39),)
_SPACE: Final[Ranges] = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))
_WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_PERL: Final = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": _WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CONTROL: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_CODE: Final = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|([0-7]{1,3})")
_REPEAT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED: Final = re.compile(r"\(\?P?<[^>]*>")
_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")


def parse(pattern: str) -> Node:
    """Raises `UndecidedError`."""
    return _parsed(pattern)[0]


def alternatives(pattern: str) -> tuple[str, ...]:
    """The alternatives of an expression: its parts between the `|` outside of groups. Empty if there is no such `|`, if
    a part such as `(?i)` sets flags for those after it, or if the expression cannot be analysed."""
    try:
        _, parser = _parsed(pattern)
    except UndecidedError:
        return ()
    if parser.has_flags or not parser.bars:
        return ()
    return tuple(pattern[start + 1 : end] for start, end in pairwise((-1, *parser.bars, len(pattern))))


def _parsed(pattern: str) -> tuple[Node, _Parser]:
    if not pattern.isascii():
        raise UndecidedError
    parser = _Parser(pattern)
    try:
        node = parser.choice(frozenset())
    except IndexError:
        raise UndecidedError from None
    if parser.at < len(pattern):
        raise UndecidedError
    return node, parser


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.bars: list[int] = []
        """The places of each `|` outside of all groups."""
        self.has_flags = False
        """Whether a part such as `(?i)` sets flags for the rest of its group, which may have further alternatives."""

    def choice(self, flags: frozenset[str]) -> Node:
        """The alternatives up to the end of the group. Flags that one alternative sets also hold in the next ones."""
        alternatives: list[Node] = []
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            letter = self.text[self.at]
            set_here = _FLAGS.match(self.text, self.at) if letter == "(" else None
            if letter == "|":
                self.bars += [self.at] * (self.depth == 0)
                self.at += 1
                alternatives.append(Sequence(tuple(parts)))
                parts = []
            elif set_here is not None and set_here[3] == ")":
                flags = (flags | set(set_here[1])) - set(set_here[2] or "")
                self.has_flags = True
                self.at = set_here.end()
            elif self.text.startswith("\\Q", self.at):
                parts += self._quotation(flags)
            else:
                parts.append(self._repeated(self._atom(flags)))
        return Choice((*alternatives, Sequence(tuple(parts))))

    def _quotation(self, flags: frozenset[str]) -> list[Node]:
        """The letters between `\\Q` and `\\E`. A repetition after `\\E` repeats the last letter only."""
        end = self.text.find("\\E", self.at)
        if end < 0:
            raise UndecidedError
        letters: list[Node] = [_letter(ord(letter), flags) for letter in self.text[self.at + 2 : end]]
        self.at = end + 2
        if letters:
            letters[-1] = self._repeated(letters[-1])
        return letters

    def _repeated(self, node: Node) -> Node:
        while self.at < len(self.text):
            letter = self.text[self.at]
            counted = _REPEAT.match(self.text, self.at) if letter == "{" else None
            if counted is not None:
                least = int(counted[1])
                most = least if counted[2] is None else int(counted[3]) if counted[3] else None
                self.at = counted.end()
            elif letter in "*+?":
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[letter]
                self.at += 1
            else:
                return node
            if self.text.startswith("?", self.at):
                self.at += 1
            node = Repeat(node, least, most)
        return node

    def _atom(self, flags: frozenset[str]) -> Node:
        letter = self.text[self.at]
        if letter in "*+?" or _REPEAT.match(self.text, self.at):
            raise UndecidedError  # a repetition after `(?i)` repeats the part before `(?i)`
        if letter == "(":
            return self._group(flags)
        if letter == "[":
            return Letters(self._class(flags))
        if letter == "\\":
            return self._escape(flags)
        self.at += 1
        if letter in "^$":
            if "m" in flags:
                raise UndecidedError
            return Begin() if letter == "^" else End()
        if letter == ".":
            return Letters(_EVERY if "s" in flags else _without(((0x0A, 0x0A),)))
        return _letter(ord(letter), flags)

    def _group(self, flags: frozenset[str]) -> Node:
        named = _NAMED.match(self.text, self.at)
        own = _FLAGS.match(self.text, self.at)
        if named is not None:
            self.at = named.end()
        elif own is not None:
            flags = (flags | set(own[1])) - set(own[2] or "")
            self.at = own.end()
        elif self.text.startswith("(?", self.at):
            raise UndecidedError
        else:
            self.at += 1
        self.depth += 1
        node = self.choice(flags)
        self.depth -= 1
        if self.text[self.at] != ")":
            raise UndecidedError
        self.at += 1
        return node

    def _escape(self, flags: frozenset[str]) -> Node:
        following = self.text[self.at + 1]
        if following in "bBCpP":
            raise UndecidedError
        if following in "Az":
            self.at += 2
            return Begin() if following == "A" else End()
        ranges = self._item()
        return Letters(_folded(ranges) if "i" in flags else ranges)

    def _item(self) -> Ranges:
        """An escape that stands for letters, in a class or outside."""
        following = self.text[self.at + 1]
        if following in "pP":
            raise UndecidedError
        if following.lower() in _PERL:
            self.at += 2
            ranges = _PERL[following.lower()]
            return ranges if following.islower() else _without(ranges)
        code = _CODE.match(self.text, self.at + 1)
        if code is not None:
            self.at = code.end()
            number = int(code[3], 8) if code[3] else int(code[1] or code[2], 16)
        else:
            self.at += 2
            number = _CONTROL.get(following, ord(following))
        return ((number, number),)

    def _class(self, flags: frozenset[str]) -> Ranges:
        self.at += 1
        negated = self.text[self.at] == "^"
        self.at += negated
        members: list[tuple[int, int]] = []
        first = True
        while first or self.text[self.at] != "]":
            first = False
            posix = _CLASS.match(self.text, self.at)
            if posix is not None:
                self.at = posix.end()
                ranges = _POSIX[posix[2]]
                members += _without(ranges) if posix[1] else ranges
                continue
            ranges = self._member()
            if self.text[self.at] == "-" and self.text[self.at + 1] != "]":
                self.at += 1
                ranges = ((ranges[0][0], self._member()[0][1]),)
            members += ranges
        self.at += 1
        whole = _folded(tuple(members)) if "i" in flags else tuple(members)
        return _without(whole) if negated else whole

    def _member(self) -> Ranges:
        if self.text[self.at] == "\\":
            return self._item()
        self.at += 1
        code = ord(self.text[self.at - 1])
        return ((code, code),)


def _letter(code: int, flags: frozenset[str]) -> Letters:
    return Letters(_folded(((code, code),)) if "i" in flags else ((code, code),))


def _folded(ranges: Ranges) -> Ranges:
    """The ranges, with both cases of each ASCII letter in them."""
    folded = list(ranges)
    for low, high in ranges:
        for first, shift in ((0x41, 32), (0x61, -32)):
            least, most = max(low, first), min(high, first + 25)
            if least <= most:
                folded.append((least + shift, most + shift))
    return tuple(folded)


def _without(ranges: Ranges) -> Ranges:
    gaps = []
    at = 0
    for low, high in sorted(ranges):
        if at < low:
            gaps.append((at, low - 1))
        at = max(at, high + 1)
    return (*gaps, (at, LAST)) if at <= LAST else tuple(gaps)
