r"""Comparisons with the elements of a header's value, as regular expressions of RE2.

A header's value is a list, usually with commas between its elements (`dsl.match.Elements`). Envoy compares whole values
only, so a comparison with an element becomes a comparison with the whole value. The element stands between two
separators, or between a separator and an end of the value. An expression for an element must not match a separator:

    a.c    (?:a.c)|(?:(?s:.*),)?[ \t]*(?:a[^,]c)[ \t]*(?:,(?s:.*))?

Envoy passes expressions and values to RE2 as Latin-1, so each letter is a byte. A letter beyond ASCII becomes several
bytes: a literal text can contain these, but a class or a repetition cannot.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dsl.match import Elements

if TYPE_CHECKING:
    from collections.abc import Iterable

LIST: Final = Elements()
_NOTHING: Final = r"[^\x00-\xff]"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]")


class TooIntricateError(ValueError):
    """A regular expression that cannot be rewritten; the message gives the reason."""


def quoted(text: str) -> str:
    """A regular expression that matches this text alone."""
    return "".join(letter if _PLAIN.fullmatch(letter) else f"\\x{ord(letter):02x}" for letter in text)


def equals(value: str, of: Elements = LIST) -> str:
    """The expression for values of which the whole or an element is equal to `value`."""
    if set(of.separators) & set(value):
        return quoted(value) if of.whole else _NOTHING
    return f"{_before(of)}{quoted(value)}{_after(of)}"


def starts_with(prefix: str, of: Elements = LIST) -> str:
    """The expression for values of which the whole or an element begins with `prefix`."""
    if set(of.separators) & set(prefix):
        return rf"{quoted(prefix)}(?s:.*)" if of.whole else _NOTHING
    return rf"{_before(of)}{quoted(prefix)}(?s:.*)"


def without(letters: str, pattern: str) -> str:
    """An expression for those texts of `pattern` that contain none of `letters`. Raises `TooIntricateError`."""
    if not pattern.isascii():
        raise TooIntricateError("it has letters beyond ASCII")
    return _Scan(pattern, letters).without_separators()


def matches(pattern: str, of: Elements = LIST) -> str:
    """The expression for values of which `pattern` matches the whole or an element. Raises `TooIntricateError`."""
    element = f"{_before(of)}(?:{without(of.separators, pattern)}){_after(of)}"
    return f"(?:{pattern})|{element}" if of.whole else element


def _before(of: Elements) -> str:
    return rf"(?:(?s:.*){_separator(of)})?[ \t]*"


def _after(of: Elements) -> str:
    return rf"[ \t]*(?:{_separator(of)}(?s:.*))?"


def _separator(of: Elements) -> str:
    return of.separators if len(of.separators) == 1 else f"[{of.separators}]"


def none_of(words: Iterable[str]) -> str:
    """An expression for every text but these words, in small letters or capitals. RE2 has no negative look-ahead."""
    return f"(?is)(?:{_other(frozenset(words))})"


def _other(rests: frozenset[str]) -> str:
    following: dict[str, set[str]] = {}
    for rest in filter(None, rests):
        following.setdefault(rest[0].lower(), set()).add(rest[1:])
    ways = [f"[^{''.join(map(quoted, sorted(following)))}].*"] if following else [".+"]
    ways += [
        f"{quoted(letter)}(?:{_other(frozenset(following_rests))})"
        for letter, following_rests in sorted(following.items())
    ]
    return "|".join(ways if "" in rests else ["", *ways])


# ---- regular expressions that stay inside an element ----

# The ranges of the classes that contain a separator.
_NEGATED: Final = {
    "D": ((0x00, 0x2F), (0x3A, 0xFF)),
    "S": ((0x00, 0x08), (0x0B, 0x0B), (0x0E, 0x1F), (0x21, 0xFF)),
    "W": ((0x00, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60), (0x7B, 0xFF)),
}
_POSIX: Final = {
    "ascii": ((0x00, 0x7F),),
    "graph": ((0x21, 0x7E),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
}
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_CODE: Final = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|([0-7]{2,3}|0)")
_LETTERS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_NAMED: Final = re.compile(r"\(\?P?<[A-Za-z_][A-Za-z0-9_]*>")
_FLAGS: Final = re.compile(r"\(\?[imsU-]*[:)]")


class _Scan:
    """One pass over a regular expression, which changes each part that may match a separator so that it does not."""

    def __init__(self, pattern: str, separators: str) -> None:
        self.text = pattern
        self.separators = separators
        self.at = 0
        self.depth = 0
        self.first = True
        """Whether this place is outside of all groups, and no part before it in its alternative matches a character."""

    def without_separators(self) -> str:
        parts = []
        while self.at < len(self.text):
            start = self.at
            parts.append(self._part())
            taken = self.text[start : self.at]
            begins = taken == "|" and self.depth == 0
            self.first = begins or (self.first and taken.startswith("(?") and taken.endswith(")"))
        return "".join(parts)

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
            # The comma in a repetition (`{1,3}`) is no separator. A brace that begins no repetition is an ordinary
            # letter.
            repeat = re.compile(r"\{\d+(?:,\d*)?\}").match(self.text, self.at)
            return self._take(len(repeat[0])) if repeat else self._take()
        if letter in "^$":
            return self._anchor()
        self.at += 1
        if letter == ".":
            return f"[^{self.separators}]"
        self.depth -= letter == ")"
        # A `?` here is a repetition, even if `?` is a separator.
        return _NOTHING if letter in self.separators and letter != "?" else letter

    def _group(self) -> str:
        named = _NAMED.match(self.text, self.at)
        if named:
            # The group loses its name: the original stands in the same expression, which can have a name only once.
            self.at += len(named[0])
            self.depth += 1
            return "(?:"
        flags = _FLAGS.match(self.text, self.at)
        taken = self._take(len(flags[0])) if flags else self._take()
        self.depth += not taken.endswith(")")
        return taken

    def _anchor(self) -> str:
        """Drops an anchor at an end of the expression, which has to match the whole text in any case. An anchor at any
        other place raises `TooIntricateError`."""
        letter = self._take()
        if self.text[self.at : self.at + 1] in tuple("*+?{"):
            raise TooIntricateError(f"it repeats `{letter}`")
        ends = self.depth == 0 and self.text[self.at : self.at + 1] in ("", "|")
        if self.first if letter == "^" else ends:
            return "(?:)"
        raise TooIntricateError(f"`{letter}` stands inside it")

    def _escape(self) -> str:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "Q":
            end = self.text.find("\\E", self.at)
            end = len(self.text) if end < 0 else end
            literal = self.text[self.at + 2 : end]
            self.at = end + 2
            return "".join(_NOTHING if letter in self.separators else quoted(letter) for letter in literal)
        if following in ("A", "z", "C"):
            raise TooIntricateError(f"it has `\\{following}`")
        if following in ("b", "B"):
            return self._take(2)
        return f"[{self._item()[0]}]" if following in _NEGATED else self._single()

    def _single(self) -> str:
        text, code = self._item()
        return _NOTHING if self._separates(code) else text

    def _separates(self, code: int | None) -> bool:
        return code is not None and chr(code) in self.separators

    def _item(self) -> tuple[str, int | None]:
        """An escape, inside or outside of a class: its text without separators, and its code if it is a character."""
        start = self.at
        following = self.text[self.at + 1 : self.at + 2]
        if following in _NEGATED:
            self.at += 2
            return self._without(_NEGATED[following]), None
        if following in ("p", "P"):
            name = re.compile(r"\{\^?\w+\}|\w").match(self.text, start + 2)
            if name is None or following == "P" or name[0].strip("{}") not in _WITHOUT_SEPARATORS:
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
            return f"[^{self.separators}{''.join(items)}]"
        return f"[{''.join(items)}]" if any(items) else _NOTHING

    def _range(self, negated: bool) -> str:
        """One item of a class, without separators. In a negated class the items stay as they are, and the separators
        are added to them as a whole (`_class`).

        Characters are written as codes: `]`, `^`, `-` and `[:` would have another meaning among other neighbours.
        """
        start = self.at
        posix = _POSIX_CLASS.match(self.text, start)
        if posix:
            self.at = posix.end()
            if negated or (not posix[1] and posix[2] not in _POSIX):
                return posix[0]
            if posix[1]:
                raise TooIntricateError(f"it has `{posix[0]}`")
            return self._without(_POSIX[posix[2]])
        text, low = self._character()
        if low is not None and re.compile(r"-[^\]]").match(self.text, self.at):
            self.at += 1
            _, high = self._character()
            if high is None:
                raise TooIntricateError("a range ends in a class")
            return _codes(low, high) if negated else self._without(((low, high),))
        if low is None:
            return self.text[start : self.at] if negated else text
        return "" if self._separates(low) and not negated else rf"\x{low:02x}"

    def _without(self, ranges: Iterable[tuple[int, int]]) -> str:
        """The ranges of a class, without the separators."""
        parts = []
        for low, high in ranges:
            start = low
            for separator in sorted(map(ord, self.separators)):
                if start <= separator <= high:
                    parts.append(_codes(start, separator - 1))
                    start = separator + 1
            parts.append(_codes(start, high))
        return "".join(parts)

    def _character(self) -> tuple[str, int | None]:
        if self.text.startswith("\\", self.at):
            return self._item()
        letter = self._take()
        return letter, ord(letter)


_WITHOUT_SEPARATORS: Final = frozenset(
    ("L", "Lu", "Ll", "Lt", "Lm", "Lo", "N", "Nd", "Nl", "No", "M", "Mn", "Mc", "Me")
)


def _codes(low: int, high: int) -> str:
    return rf"\x{{{low:x}}}-\x{{{high:x}}}" if low <= high else ""
