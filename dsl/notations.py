"""Numbers in the notations of other languages, and how a program writes them: `1_000`, `1e3`, `1k`, `0x10`, `.5`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

MOST: Final = 60
"""A longer text gets no advice."""
_LARGEST_POWER: Final = 18

# The end of a number: letters of a unit, `%`, or `/s`.
_TAIL: Final = r"(?P<tail>(?:[A-Za-zµ%]+)?(?:/[A-Za-z]+)?)"
_GROUPED: Final = re.compile(rf"(?P<digits>[0-9]+(?:[_',][0-9]+)+(?:\.[0-9]+)?){_TAIL}")
_THOUSANDS: Final = re.compile(rf"(?P<digits>[0-9]{{1,3}}(?:[ ,][0-9]{{3}})+){_TAIL}")
_POWER: Final = re.compile(rf"(?P<digits>[0-9]*\.?[0-9]+)[eE](?P<power>[+-]?[0-9]{{1,2}}){_TAIL}")
_LETTER: Final = re.compile(r"(?P<digits>[0-9]*\.?[0-9]+)(?P<letter>[kKMG])(?P<tail>(?:/[A-Za-z]+)?)")
_BASE: Final = re.compile(r"0(?:[xX][0-9a-fA-F]{1,12}|[bB][01]{1,40}|[oO][0-7]{1,16})")
_POINT: Final = re.compile(rf"(?P<before>[0-9]*)\.(?P<after>[0-9]*){_TAIL}")
_LETTERS: Final = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
MANY_POINTS: Final = re.compile(r"[0-9]*\.[0-9]*\.[0-9.]*[A-Za-z%µ]*(?:/[A-Za-z]+)?")


def as_here(text: str) -> str | None:
    """The same number as a program writes it; None for a text that is no number or is written so already, and for one
    that is too long or has too large an exponent.

    >>> as_here("1_000ms"), as_here("2.5e3"), as_here("1k/s"), as_here("0x10"), as_here(".5"), as_here("10.s")
    ('1000ms', '2500', '1000/s', '16', '0.5', '10s')
    """
    if len(text) > MOST:
        return None
    sign, number = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
    positive = _positive(number)
    if positive is None and text.startswith("+") and re.fullmatch(rf"[0-9]+(?:\.[0-9]+)?{_TAIL}", number):
        positive = number
    return None if positive is None else f"{sign}{positive}"


def _positive(text: str) -> str | None:
    for pattern in (_GROUPED, _THOUSANDS):
        if number := pattern.fullmatch(text):
            return re.sub(r"[_', ]", "", number["digits"]) + number["tail"]
    if _BASE.fullmatch(text):
        return str(int(text, 0))
    if (number := _POWER.fullmatch(text)) and abs(int(number["power"])) <= _LARGEST_POWER:
        return _written(_fraction(number["digits"]) * Fraction(10) ** int(number["power"])) + number["tail"]
    if number := _LETTER.fullmatch(text):
        return _written(_fraction(number["digits"]) * _LETTERS[number["letter"]]) + number["tail"]
    number = _POINT.fullmatch(text)
    if number and bool(number["before"]) != bool(number["after"]):
        return (number["before"] or f"0.{number['after']}") + number["tail"]
    return None


def _fraction(digits: str) -> Fraction:
    return Fraction(f"0{digits}" if digits.startswith(".") else digits)


def _written(value: Fraction) -> str:
    """A number with a decimal point and no more digits than it needs. Its divisor has to divide a power of ten."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    whole = str(int(value * 10**places)).rjust(places + 1, "0")
    return f"{whole[:-places]}.{whole[-places:]}" if places else whole
