"""Takes typed values out of JSON nodes; each mistake is a diagnostic at its place.

A method returns None after an error, so that one run finds the errors of all fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from admc.overhead.profiles.json_text import Node
from admc.overhead.profiles.profile import Figure
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.json_type import described
from dsl.text import Span

MAX_MAGNITUDE: Final = 18
"""Figures are below 10^19, and have at most this many digits after the point: far more than any measurement."""
MAX_TEXT: Final = 2000
SHAPE: Final = "ADM861"
FIGURE: Final = "ADM862"
NAME: Final = "ADM864"


class Fields:
    absent = "write `null` where the source has no such figure"
    """What to do about a missing field."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics

    def error(self, code: str, message: str, span: Span, hint: str | None = None, cause: str | None = None) -> None:
        self.diagnostics.error(code, message, span, hint=hint, cause=cause)

    # ---- shapes ----

    def object(self, node: Node, what: str, keys: Iterable[str]) -> Mapping[str, Node] | None:
        """The fields of an object that has exactly these keys."""
        if not isinstance(node.value, dict):
            self.error(SHAPE, f"{what} is an object `{{...}}`, not {shown(node)}", node.span)
            return None
        known = tuple(keys)
        good = True
        for key in node.value:
            if key not in known:
                hint = self.diagnostics.did_you_mean(key, known) or "known are " + ", ".join(
                    f"`{name}`" for name in known
                )
                self.error(SHAPE, f"{what} has no field `{key[:60]}`", node.keys[key], hint)
                good = False
        for key in known:
            if key not in node.value and good:
                place = Span(node.span.source, node.span.start, node.span.start + 1)
                self.error(SHAPE, f"{what} lacks `{key}`", place, self.absent)
                good = False
        return node.value if good else None

    def array(self, node: Node, what: str, most: int) -> list[Node] | None:
        if not isinstance(node.value, list):
            self.error(SHAPE, f"{what} is a list `[...]`, not {shown(node)}", node.span)
            return None
        if len(node.value) > most:
            self.error(SHAPE, f"{what} has more than {most} entries", node.value[most].span)
            return None
        return node.value

    # ---- scalars ----

    def text(self, node: Node, what: str) -> str | None:
        if not isinstance(node.value, str):
            self.error(SHAPE, f"{what} is a string, not {shown(node)}", node.span)
            return None
        if not node.value.strip() or len(node.value) > MAX_TEXT:
            self.error(SHAPE, f"{what} has between 1 and {MAX_TEXT} characters", node.span)
            return None
        return node.value

    def word(self, node: Node, what: str, known: Iterable[str]) -> str | None:
        """A string that is one of `known`."""
        if not isinstance(node.value, str):
            self.error(SHAPE, f"{what} is a string, not {shown(node)}", node.span)
            return None
        words = list(known)
        if node.value in words:
            return node.value
        hint = self.diagnostics.did_you_mean(node.value, words) or "known are " + ", ".join(
            f"`{word}`" for word in words[:20]
        )
        self.error(NAME, f"there is no {what} `{node.value[:60]}`", node.span, hint)
        return None

    def flag(self, node: Node, what: str) -> bool | None:
        if isinstance(node.value, bool):
            return node.value
        self.error(SHAPE, f"{what} is `true` or `false`, not {shown(node)}", node.span)
        return None

    def count(self, node: Node, what: str) -> int | None:
        """A whole number, at least 1."""
        number = self.number(node, what, least=Decimal(1))
        if number is None:
            return None
        if number != number.to_integral_value():
            self.error(FIGURE, f"{what} is a whole number, not `{number}`", node.span)
            return None
        return int(number)

    def number(self, node: Node, what: str, *, least: Decimal | None = Decimal(0)) -> Decimal | None:
        """A decimal of at most `MAX_MAGNITUDE` digits on each side of the point."""
        value = node.value
        if not isinstance(value, Decimal):
            missing = value is None
            self.error(
                FIGURE if missing else SHAPE,
                f"{what} is missing" if missing else f"{what} is a number, not {shown(node)}",
                node.span,
            )
            return None
        exponent = value.as_tuple().exponent
        if value.adjusted() > MAX_MAGNITUDE or (isinstance(exponent, int) and exponent < -MAX_MAGNITUDE):
            self.error(FIGURE, f"{what} is out of range: `{node.span.text}`", node.span)
            return None
        if least is not None and value < least:
            said = "negative" if least == 0 else f"less than {least}"
            self.error(FIGURE, f"{what} is {said}: `{node.span.text}`", node.span)
            return None
        return value

    def positive(self, node: Node, what: str) -> Decimal | None:
        number = self.number(node, what)
        if number is not None and number == 0:
            self.error(FIGURE, f"{what} is more than zero", node.span)
            return None
        return number

    # ---- figures ----

    def interval(self, node: Node, value: Decimal | None, what: str) -> tuple[Decimal | None, Decimal | None]:
        """`[low, high]` around a value, or null. The low end may be negative: a figure that is not told from zero."""
        if node.value is None:
            return None, None
        ends = node.value
        if not isinstance(ends, list) or len(ends) != 2:
            self.error(SHAPE, f"the interval of {what} is `[low, high]` or `null`, not {shown(node)}", node.span)
            return None, None
        low, high = (self.number(end, f"an end of the interval of {what}", least=None) for end in ends)
        if low is not None and high is not None and value is not None and not low <= value <= high:
            self.error(FIGURE, f"the interval of {what} does not contain its value `{value}`", node.span)
        return low, high

    def figure(self, node: Node, what: str) -> Figure | None:
        """`{"value": 1, "interval": [0, 2]}`."""
        given = self.object(node, what, ("value", "interval"))
        if given is None:
            return None
        value = self.number(given["value"], what)
        low, high = self.interval(given["interval"], value, what)
        return None if value is None else Figure(value, low, high)


def shown(node: Node) -> str:
    """What stands at a place, for a message."""
    return described(node.value, node.span.text)
