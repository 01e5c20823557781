"""Numbers as decimals for output. Each number is rounded once, here, and half to even.

The value of a float is its shortest decimal: of 0.1 it is exactly 1/10.
"""

from __future__ import annotations

from fractions import Fraction


def fixed(value: float | Fraction, places: int) -> str:
    """A decimal with at most `places` digits after the point, and no zeros at its end.

    >>> fixed(1 / 3, 3), fixed(Fraction(5, 2), 0), fixed(-0.125, 2), fixed(0, 2)
    ('0.333', '2', '-0.12', '0')
    """
    scaled = round(_exact(value) * 10**places)
    digits = f"{abs(scaled):0{places + 1}d}"
    whole, part = (digits[:-places], digits[-places:].rstrip("0")) if places else (digits, "")
    return ("-" if scaled < 0 else "") + f"{int(whole):d}" + (f".{part}" if part else "")


def significant(value: float | Fraction, digits: int = 5) -> str:
    """A decimal with at most `digits` significant digits, but with all digits before the point.

    >>> significant(123456), significant(1 / 3), significant(Fraction(1, 30000))
    ('123456', '0.33333', '0.000033333')
    """
    if not value:
        return "0"
    places = digits - 1
    size = abs(_exact(value))
    while size >= 10 and places > 0:
        size /= 10
        places -= 1
    while size < 1 and places < 30:
        size *= 10
        places += 1
    return fixed(value, places)


def percent(difference: int, before: int) -> str:
    """A difference in per cent, with its sign even if it is rounded to 0; empty if the difference is 0, or the number
    before it.

    >>> percent(1, 3), percent(-1, 8), percent(5, 0), percent(1, 100_000), percent(-1, 100_000)
    ('+33.3%', '-12.5%', '', '+0.0%', '-0.0%')
    """
    if not before or not difference:
        return ""
    change = 1000 * difference / before
    tenths = abs(round(change))
    return f"{'-' if change < 0 else '+'}{tenths // 10}.{tenths % 10}%"


def _exact(value: float | Fraction) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
