"""Arguments of built-in kinds, beyond their types: what goes into headers arrives as written, and a limit is one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.kinds.guide import NEEDS_ONE
from dsl.values.typed import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dsl.program import Kind, Value

_WORD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_ORIGIN: Final = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\s,/?#@\\\x00-\x20\x7f-\U0010ffff]+")
_OF_CORS: Final = {
    "origins": (_ORIGIN, "an origin is a scheme, a host and maybe a port", 'write `"https://shop.example"`, or `"*"`'),
    "methods": (_WORD, "methods stand side by side in one header, so each is one word", 'write `["GET", "PUT"]`'),
    "headers": (_WORD, "headers stand side by side in one header, so each is one name", 'write `["x-a", "x-b"]`'),
    "expose": (_WORD, "headers stand side by side in one header, so each is one name", 'write `["x-a", "x-b"]`'),
}
_VALUED: Final = frozenset(f"{verb}_{what}_header" for verb in ("set", "add") for what in ("request", "response"))


class Wrong(NamedTuple):
    """What is wrong with an argument."""

    parameter: str
    code: str
    message: str
    cause: str
    hint: str


def wrong_values(kind: Kind, values: Mapping[str, Value]) -> Iterator[Wrong]:
    """All that is wrong with the arguments of a policy."""
    if kind.name == "cors":
        yield from _cors(values)
    elif kind.name in NEEDS_ONE and all(limit is None for limit in values.values()):
        yield Wrong(
            "",
            "ADM204",
            f"`{kind.name}` needs at least one of its arguments",
            "without any it does nothing",
            f"give {' or '.join(f'`{name}`' for name in values)}",
        )
    elif kind.name in _VALUED:
        text = str(values["value"])
        if text != text.strip(" \t"):
            yield Wrong(
                "value",
                "ADM216",
                "the value of a header cannot begin or end with a blank",
                "a receiver takes such blanks away, so a match sees them at one side and not at the other",
                f'write `"{text.strip()[:60]}"`',
            )


def _cors(values: Mapping[str, Value]) -> Iterator[Wrong]:
    for parameter, (pattern, cause, hint) in _OF_CORS.items():
        items = values[parameter]
        for item in items if isinstance(items, tuple) else ():
            if not pattern.fullmatch(str(item)):
                text = f"`{shown(str(item))}`" if item else "an empty string"
                yield Wrong(parameter, "ADM215", f"{text} does not fit among the `{parameter}`", cause, hint)
                break
