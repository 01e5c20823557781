"""Regular expressions: whether RE2, the engine that Envoy uses, accepts them, and their size.

RE2 itself checks them, since its syntax is its own. It is loaded only for programs with expressions.
"""

from __future__ import annotations

import re
from typing import Final

MAX_PATTERN = 1024
MAX_INSTRUCTIONS = 90
"""Envoy refuses expressions of more than 100 instructions; admc adds a few to each expression."""
_LITERAL_OR_ESCAPE: Final = re.compile(r"\\Q.*?\\E|\\[^Q]")


def wrong_pattern(text: str) -> tuple[str, str | None] | None:
    """The error of a regular expression as (message, hint), or None."""
    if len(text) > MAX_PATTERN:
        return f"a regular expression has at most {MAX_PATTERN} characters", "use several comparisons with `or`"
    if not text.isprintable():
        return "a regular expression has no control characters in it", "write `\\\\n` for the two characters of `\\n`"
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        size = re2.compile(text, options).programsize
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        hint = None
        if "perl operator" in shown or "repetition" in shown:
            hint = "the engine (RE2) has no lookaround, no possessive and no very long repetition"
        elif "escape" in shown or shown.startswith("trailing \\"):
            hint = "a backslash is written `\\\\` in a string; RE2 has no backreferences"
        what, colon, where = shown.partition(": ")
        place = f": `{where.replace('`', chr(39))}`" if colon else ""
        return f"this regular expression is not valid for RE2: {what}{place}", hint
    if "\\Q" in _LITERAL_OR_ESCAPE.sub("", text):
        return "a `\\Q` of this regular expression has no end", "end it with `\\\\E`"
    if size > MAX_INSTRUCTIONS:
        return (
            f"this regular expression is too large: it takes {size} instructions, and {MAX_INSTRUCTIONS} is the most",
            "repeat less, name fewer letters, or use several comparisons with `or`",
        )
    return None
