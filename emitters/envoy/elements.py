"""Comparisons with the elements of a header's value, as regular expressions of RE2.

A header's value is a list with commas between its elements (`dsl.match.Comparison`). Envoy compares whole values only,
so what is asked of an element has to be asked of the whole: an element stands between two commas, or an end and a
comma. For a regular expression that means one that never runs over a comma.

Envoy has RE2 read expressions and values as Latin-1, so what they speak of is bytes. A letter beyond ASCII is several
of them, which a literal text can stand for and a class or a repetition cannot.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_BEFORE: Final = r"(?:(?s:.*),)?[ \t]*"
_AFTER: Final = r"[ \t]*(?:,(?s:.*))?"
_NOTHING: Final = r"[^\x00-\xff]"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]")


class TooIntricateError(ValueError):
    """A regular expression that is not understood well enough; the message says what is in the way."""


def quoted(text: str) -> str:
    """Text as a regular expression that matches it alone."""
    return "".join(letter if _PLAIN.fullmatch(letter) else f"\\x{ord(letter):02x}" for letter in text)


def equals(value: str) -> str:
    """The whole value or an element equals."""
    return quoted(value) if "," in value else f"{_BEFORE}{quoted(value)}{_AFTER}"


def starts_with(prefix: str) -> str:
    """The whole value or an element begins with a prefix."""
    return rf"{quoted(prefix)}(?s:.*)" if "," in prefix else rf"{_BEFORE}{quoted(prefix)}(?s:.*)"


def matches(pattern: str) -> str:
    """The whole value or an element matches entirely. Raises `TooIntricateError`."""
    if not pattern.isascii():
        raise TooIntricateError("it has letters beyond ASCII")
    return f"(?:{pattern})|{_BEFORE}(?:{_Scan(pattern).without_commas()}){_AFTER}"


def none_of(words: Iterable[str]) -> str:
    """Every text but these words, whatever their letters' case: RE2 cannot look ahead."""
    return f"(?is)(?:{_other(frozenset(words))})"


def _other(rests: frozenset[str]) -> str:
    following: dict[str, set[str]] = {}
    for rest in filter(None, rests):
        following.setdefault(rest[0].lower(), set()).add(rest[1:])
    ways = [f"[^{''.join(map(quoted, sorted(following)))}].*"] if following else [".+"]
    ways += [f"{quoted(letter)}(?:{_other(frozenset(found))})" for letter, found in sorted(following.items())]
    return "|".join(ways if "" in rests else ["", *ways])


# ---- regular expressions that stay inside an element ----

# What is in these classes besides the comma.
_NOT_DIGIT: Final = r"\x00-\x2b\x2d-\x2f\x3a-\xff"
_NOT_SPACE: Final = r"\x00-\x08\x0b\x0e-\x1f\x21-\x2b\x2d-\xff"
_NOT_WORD: Final = r"\x00-\x2b\x2d-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\xff"
_NEGATED: Final = {"D": _NOT_DIGIT, "S": _NOT_SPACE, "W": _NOT_WORD}
_POSIX: Final = {
    "ascii": r"\x00-\x2b\x2d-\x7f",
    "graph": r"\x21-\x2b\x2d-\x7e",
    "print": r"\x20-\x2b\x2d-\x7e",
    "punct": r"\x21-\x2b\x2d-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
}
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_CODE: Final = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|([0-7]{2,3}|0)")
_LETTERS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_NAMED: Final = re.compile(r"\(\?P?<[A-Za-z_][A-Za-z0-9_]*>")
_FLAGS: Final = re.compile(r"\(\?[imsU-]*[:)]")


class _Scan:
    """One pass over a regular expression: each part that takes a character is made to take no comma."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.depth = 0

    def without_commas(self) -> str:
        found = []
        while self.at < len(self.text):
            found.append(self._part())
        return "".join(found)

    def _take(self, count: int = 1) -> str:
        taken = self.text[self.at : self.at + count]
        self.at += count
        return taken

    def _part(self) -> str:
        letter = self.text[self.at]
        if letter == "\\":
            return self._escape()
        if letter == "[":
            return self._class()
        if letter == "(":
            return self._group()
        if letter == "{":
            # The comma of a repetition is none; a brace that begins no repetition is plain.
            repeat = re.compile(r"\{\d+(?:,\d*)?\}").match(self.text, self.at)
            return self._take(len(repeat[0])) if repeat else self._take()
        if letter in "^$":
            return self._anchor()
        self.at += 1
        if letter == ".":
            return "[^,]"
        return _NOTHING if letter == "," else letter

    def _group(self) -> str:
        named = _NAMED.match(self.text, self.at)
        if named:
            # A name may stand once in an expression, and the original has it.
            self.at += len(named[0])
            return "(?:"
        flags = _FLAGS.match(self.text, self.at)
        return self._take(len(flags[0])) if flags else self._take()

    def _anchor(self) -> str:
        """Where an expression has to match entirely, an anchor at its end says nothing; elsewhere it is odd."""
        letter = self._take()
        if self.text[self.at : self.at + 1] in tuple("*+?{"):
            raise TooIntricateError(f"it repeats `{letter}`")
        if (self.at == 1) if letter == "^" else (self.at == len(self.text)):
            return "(?:)"  # a repetition may follow
        raise TooIntricateError(f"`{letter}` stands inside it")

    def _escape(self) -> str:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "Q":
            end = self.text.find("\\E", self.at)
            end = len(self.text) if end < 0 else end
            literal = self.text[self.at + 2 : end]
            self.at = end + 2
            return "".join(_NOTHING if letter == "," else quoted(letter) for letter in literal)
        if following in ("A", "z", "C"):
            raise TooIntricateError(f"it has `\\{following}`")
        if following in ("b", "B"):
            return self._take(2)
        return self._one_of(self._item()[0]) if following in _NEGATED else self._single()

    def _single(self) -> str:
        text, code = self._item()
        return _NOTHING if code == ord(",") else text

    def _one_of(self, items: str) -> str:
        return f"[{items}]"

    def _item(self) -> tuple[str, int | None]:
        """An escape, inside a class or outside: its text without the comma, and its code if it is one character."""
        start = self.at
        following = self.text[self.at + 1 : self.at + 2]
        if following in _NEGATED:
            self.at += 2
            return _NEGATED[following], None
        if following in ("p", "P"):
            name = re.compile(r"\{\^?\w+\}|\w").match(self.text, start + 2)
            if name is None or following == "P" or name[0].strip("{}") not in _WITHOUT_COMMA:
                raise TooIntricateError(f"it has `\\{following}`")
            self.at = start + 2 + len(name[0])
            return self.text[start : self.at], None
        if following in ("d", "s", "w"):
            return self._take(2), None
        code = _CODE.match(self.text, start + 1)
        if code:
            self.at = start + 1 + len(code[0])
            digits = code[1] or code[2]
            number = int(digits, 16) if digits else int(code[3], 8)
            if number > 0x7F:
                raise TooIntricateError("it has letters beyond ASCII")
            return self.text[start : self.at], number
        text = self._take(2)
        return text, _LETTERS.get(following, ord(following)) if following else None

    def _class(self) -> str:
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        items: list[str] = []
        first = True
        while first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise TooIntricateError("a `[` has no end")
            items.append(self._range(negated))
            first = False
        self.at += 1
        if negated:
            return f"[^,{''.join(items)}]"
        return f"[{''.join(items)}]" if any(items) else _NOTHING

    def _range(self, negated: bool) -> str:
        """One item of a class. A class that is negated loses its comma elsewhere, so it keeps what it says.

        Characters are written as codes: `]`, `^`, `-` and `[:` mean something else once their neighbours change.
        """
        start = self.at
        posix = _POSIX_CLASS.match(self.text, start)
        if posix:
            self.at = posix.end()
            if negated or (not posix[1] and posix[2] not in _POSIX):
                return posix[0]
            if posix[1]:
                raise TooIntricateError(f"it has `{posix[0]}`")
            return _POSIX[posix[2]]
        text, low = self._character()
        if low is not None and re.compile(r"-[^\]]").match(self.text, self.at):
            self.at += 1
            _, high = self._character()
            if high is None:
                raise TooIntricateError("a range ends in a class")
            return _codes(low, high) if negated else _between(low, high)
        if low is None:
            return self.text[start : self.at] if negated else text
        return "" if low == ord(",") and not negated else rf"\x{low:02x}"

    def _character(self) -> tuple[str, int | None]:
        if self.text.startswith("\\", self.at):
            return self._item()
        letter = self._take()
        return letter, ord(letter)


_WITHOUT_COMMA: Final = frozenset(("L", "Lu", "Ll", "Lt", "Lm", "Lo", "N", "Nd", "Nl", "No", "M", "Mn", "Mc", "Me"))


def _between(low: int, high: int) -> str:
    """A range without the comma."""
    comma = ord(",")
    if not low <= comma <= high:
        return _codes(low, high)
    return _codes(low, comma - 1) + _codes(comma + 1, high)


def _codes(low: int, high: int) -> str:
    return rf"\x{{{low:x}}}-\x{{{high:x}}}" if low <= high else ""
