"""Numbers with units. Each type of number has its own units; any other unit is an error.

Functions that read a number return an error as a `BadNumber`, and do not raise it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ulp
from typing import NamedTuple

from dsl.notations import as_here

LARGEST = 2**53
"""JSON readers lose digits of larger numbers."""

_NUMBER = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z_%µ][A-Za-z0-9_%µ]*)?(?:/([A-Za-z0-9]+))?")
_MAX_DIGITS = 30

_DURATIONS = {"us": 1, "µs": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_SIZES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_RATES = {"s": 1, "m": 60, "h": 3600}
NAMES = {"duration": tuple(unit for unit in _DURATIONS if unit != "µs"), "size": tuple(_SIZES), "percent": ("%",)}
"""Type of a parameter -> its units."""
WORDS = frozenset((*_DURATIONS, *_SIZES))
"""Units that are read as separate words if blanks separate them from their number."""
LONGEST = 365 * 86400 * 10**6
CHANCE_DIGITS = 6
"""Most digits of a chance after the decimal point."""


class BadNumber(NamedTuple):
    """An invalid number: ADM201 wrong type, ADM202 wrong unit, ADM203 out of range."""

    code: str
    message: str
    hint: str | None = None


def _split(text: str) -> tuple[Fraction | int, str, str] | BadNumber:
    number = _NUMBER.fullmatch(text)
    if number is None:
        return BadNumber(
            "ADM202", f"`{_short(text)}` is not a number with a unit", "write it like `400`, `250ms`, `4KB`"
        )
    if len(number[1]) > _MAX_DIGITS:
        return BadNumber("ADM203", f"`{_short(text)}` has too many digits")
    digits, unit, per = number.groups("")
    # Fractions are exact and slow; nearly all numbers are whole.
    return Fraction(digits) if "." in digits else int(digits), unit, per


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _plain(text: str, what: str) -> Fraction | int | BadNumber:
    parts = _split(text)
    if isinstance(parts, BadNumber):
        return parts
    value, unit, per = parts
    if unit or per:
        meant = as_here(text)
        if meant is not None:
            return BadNumber(
                "ADM202", f"`{_short(text)}` is not {what} as a program writes it", f"write `{without_unit(meant)}`"
            )
        if unit in WORDS or unit in ("", "%"):
            return BadNumber("ADM202", f"{what} has no unit, but `{text}` has one", f"write `{without_unit(text)}`")
        return BadNumber("ADM202", f"`{_short(text)}` is not {what}", f"{what} has digits alone")
    return value


def without_unit(text: str) -> str:
    """The digits of a number without its unit."""
    number = _NUMBER.match(text)
    return number[1] if number else text


def integer(text: str, low: int = -LARGEST, high: int = LARGEST, what: str = "a whole number") -> int | BadNumber:
    value = _plain(text, what)
    if isinstance(value, BadNumber):
        return value
    if value.denominator != 1 or "." in text:
        return BadNumber("ADM201", f"`{text}` is not a whole number", f"{what} has no fraction")
    number = int(value)
    if not low <= number <= high:
        return BadNumber("ADM203", f"`{text}` is out of range", f"{what} is {_between(low, high)}")
    return number


def _between(low: int, high: int) -> str:
    if high >= LARGEST:
        return f"at least {low}"
    return f"at most {high}" if low <= -LARGEST else f"between {low} and {high}"


def decimal(text: str, low: float = -LARGEST, high: float = LARGEST, what: str = "a number") -> float | BadNumber:
    value = _plain(text, what)
    if isinstance(value, BadNumber):
        return value
    # Bounds are floats: the exact fraction 1/1000 is less than the float 0.001, so floats are compared.
    number = float(value)
    if not low <= number <= high:
        return BadNumber("ADM203", f"`{text}` is out of range", f"{what} is between {low:g} and {high:g}")
    return number


def duration(text: str) -> int | BadNumber:
    """Microseconds, at least one."""
    parts = _split(text)
    if isinstance(parts, BadNumber):
        return parts
    value, unit, per = parts
    if per or unit not in _DURATIONS:
        return _unit("a duration", text, unit, per, _DURATIONS, "ms", "s")
    micros = value * _DURATIONS[unit]
    if micros <= 0 or micros > LONGEST:
        return BadNumber("ADM203", f"`{text}` is out of range", "a duration is more than zero and at most 365 days")
    if micros.denominator != 1:
        return BadNumber("ADM203", f"`{text}` is finer than a microsecond", "round it to whole microseconds (`us`)")
    return int(micros)


def size(text: str, low: int = 0) -> int | BadNumber:
    """Bytes."""
    parts = _split(text)
    if isinstance(parts, BadNumber):
        return parts
    value, unit, per = parts
    if per or unit not in _SIZES:
        return _unit("a size", text, unit, per, _SIZES, "KB", "MB")
    number = value * _SIZES[unit]
    if number.denominator != 1:
        return BadNumber("ADM203", f"`{text}` is not a whole number of bytes")
    if not low <= number <= LARGEST:
        return BadNumber("ADM203", f"`{text}` is out of range", f"a size is at least {low}B and at most 8PiB")
    return int(number)


_WRITTEN = {
    "duration": {unit: factor for unit, factor in _DURATIONS.items() if unit != "µs"},
    "size": {unit: _SIZES[unit] for unit in ("B", "KiB", "MiB", "GiB")},
}


def written(name: str, value: float) -> str:
    """A value in a message, as a program writes it, in the largest unit that gives a whole number. A size has binary
    units (`1000B`, `4KiB`), and the length of a `string` is `3 bytes`."""
    if name == "percent":
        return f"{Fraction(str(value)).numerator / Fraction(str(value)).denominator:g}%"
    if name == "string":
        return f"{value:g} byte{'s' * (value != 1)}"
    if name not in _WRITTEN:
        return f"{value:g}"
    unit, factor = max(
        ((unit, factor) for unit, factor in _WRITTEN[name].items() if value % factor == 0), key=lambda pair: pair[1]
    )
    return f"{int(value) // factor}{unit}" if value else f"0{next(iter(_WRITTEN[name]))}"


def outside(name: str, value: float, low: float | None, high: float | None, step: float | None) -> str | None:
    """The range that a value breaks, such as `at least 1ms`; None if the value is valid."""
    if (low is not None and value < low) or (high is not None and value > high):
        least = None if low is None else written(name, low)
        most = None if high is None else written(name, high)
        if least is None or most is None:
            return f"at least {least}" if most is None else f"at most {most}"
        return f"between {least} and {most}"
    # Decimals are compared as written, since floats are not exact.
    if step is not None and Fraction(str(value)) % Fraction(str(step)):
        return f"a whole multiple of {written(name, step)}"
    return None


def rate(text: str) -> float | BadNumber:
    """Events per second, more than zero."""
    parts = _rate(text)
    return parts if isinstance(parts, BadNumber) else float(parts[0] / parts[1])


def exact_rate(text: str) -> Fraction | BadNumber:
    """Events per second, more than zero and not rounded."""
    parts = _rate(text)
    return parts if isinstance(parts, BadNumber) else Fraction(parts[0]) / parts[1]


def nearest_rate(exact: Fraction) -> float:
    """The nearest float, but never zero: a call with a rate has requests, however few."""
    return float(exact) or ulp(0.0)


def _rate(text: str) -> tuple[Fraction | int, int] | BadNumber:
    """Events in a number of seconds."""
    parts = _split(text)
    if isinstance(parts, BadNumber):
        return parts
    value, unit, per = parts
    if unit or per not in _RATES:
        return _unit("a rate", text, unit, per, {f"/{name}": 1 for name in _RATES}, "/s")
    if not 0 < value <= 10**12:
        return BadNumber("ADM203", f"`{text}` is out of range", "a rate is more than zero and at most 1000000000000/s")
    return value, _RATES[per]


def percent(text: str) -> float | BadNumber:
    parts = _split(text)
    if isinstance(parts, BadNumber):
        return parts
    value, unit, per = parts
    if per or unit != "%":
        return _unit("a percentage", text, unit, per, {"%": 1}, "%")
    if not 0 <= value <= 100:
        return BadNumber("ADM203", f"`{text}` is out of range", "a percentage is between 0% and 100%")
    return float(value)


def chance(text: str) -> Fraction | BadNumber:
    """A share of cases, more than 0 and at most 1."""
    parts = _split(text)
    if isinstance(parts, BadNumber):
        return parts
    value, unit, per = parts
    if per or unit != "%":
        return _unit("a chance", text, unit, per, {"%": 1}, "%")
    if not 0 < value <= 100:
        return BadNumber("ADM203", f"`{text}` is out of range", "a chance is more than 0% and at most 100%")
    if (value * 10**CHANCE_DIGITS).denominator != 1:
        return BadNumber(
            "ADM203", f"`{text}` has too many digits", f"a chance has at most {CHANCE_DIGITS} after the point"
        )
    return Fraction(value, 100)


def _unit(what: str, text: str, unit: str, per: str, units: dict[str, int], *examples: str) -> BadNumber:
    written = unit + (f"/{per}" if per else "")
    if written and (meant := as_here(text)) is not None:
        rest = meant.removeprefix(without_unit(meant))
        if rest in units:
            return BadNumber("ADM202", f"`{_short(text)}` is not {what} as a program writes it", f"write `{meant}`")
        if not rest:
            return _unit(what, meant, "", "", units, *examples)
    known = ", ".join(f"`{name}`" for name in units if name != "µs")
    if not written:
        number = without_unit(text)
        meant = " or ".join(f"`{number}{example}`" for example in examples)
        return BadNumber("ADM202", f"{what} needs a unit, and `{text}` has none", f"write {meant}; units: {known}")
    folded = {name.lower(): name for name in units}
    close = folded.get(written.lower())
    hint = f"units are case sensitive: write `{close}`" if close else f"units of {what} are {known}"
    return BadNumber("ADM202", f"`{written}` in `{text}` is not a unit of {what}", hint)
