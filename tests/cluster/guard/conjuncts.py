"""The conjuncts of a CEL expression: what `&&` connects, at any depth.

    "a && (b || c && d)" --> the expression without a, without b || c && d, without c, without d

CEL has the same brackets and strings as most languages, so that a reader of tokens is enough.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|&&|\|\||[()\[\]{},?:]|[^'"&|()\[\]{},?:]+|[&|]""")
_OPENS: Final = {"(": ")", "[": "]", "{": "}"}
_ENDS: Final = (",", "?", ":", "||")
"""What ends a conjunct, besides a bracket: what binds less than `&&`."""


class Conjunct(NamedTuple):
    text: str
    without: str
    """The expression with `true` in its place."""


def conjuncts(expression: str) -> Iterator[Conjunct]:
    tokens = list(_tokens(expression))
    for first, last in _operands(tokens):
        begin, end = tokens[first][0], tokens[last][0] + len(tokens[last][1])
        text = expression[begin:end]
        yield Conjunct(text.strip(), f"{expression[:begin]} true {expression[end:]}")


def _tokens(expression: str) -> Iterator[tuple[int, str]]:
    for found in _TOKEN.finditer(expression):
        # `.?field` is no conditional.
        yield found.start(), found[0]


def _operands(tokens: list[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """The first and the last token of each operand of a `&&`."""
    for index, (_, text) in enumerate(tokens):
        if text == "&&":
            left = _edge(tokens, index, -1)
            if left is not None:
                yield left, index - 1
            right = _edge(tokens, index, 1)
            if right is not None and not _is_followed(tokens, right):
                yield index + 1, right


def _is_followed(tokens: list[tuple[int, str]], last: int) -> bool:
    """Whether another `&&` follows, of which this is the left operand."""
    return last + 1 < len(tokens) and tokens[last + 1][1] == "&&"


def _edge(tokens: list[tuple[int, str]], index: int, step: int) -> int | None:
    """The last token of the operand on one side of a `&&`."""
    depth, at = 0, index + step
    last = None
    while 0 <= at < len(tokens):
        text = tokens[at][1]
        inward = text in _OPENS if step > 0 else text in _OPENS.values()
        outward = text in _OPENS.values() if step > 0 else text in _OPENS
        if inward:
            depth += 1
        elif outward:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (text == "&&" or (text in _ENDS and not _is_optional(tokens, at))):
            break
        last = at
        at += step
    return last


def _is_optional(tokens: list[tuple[int, str]], at: int) -> bool:
    """Whether a question mark is that of `.?field`."""
    return tokens[at][1] == "?" and at > 0 and tokens[at - 1][1].endswith(".")
