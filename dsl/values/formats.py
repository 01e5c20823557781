"""Formats of texts that a parameter's type alone does not check, such as the items that Envoy joins into one header."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.values.origins import wrong_origin
from dsl.values.placeholders import placeholder
from dsl.values.typed import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dsl.program import Kind, Value

_WORD: Final = re.compile(r"\*|[!#$%&'+.^_`|~0-9A-Za-z-]{1,256}")


class FormatError(NamedTuple):
    """An argument of the right type whose text has the wrong format. `parameter` is empty if the kind needs one of its
    arguments and the policy has none."""

    parameter: str
    code: str
    message: str
    cause: str
    hint: str


def format_errors(kind: Kind, values: Mapping[str, Value]) -> Iterator[FormatError]:
    """All arguments of one policy that break the formats of its kind."""
    if kind.traits.needs_argument and all(value is None for value in values.values()):
        yield FormatError(
            "",
            "ADM204",
            f"`{kind.name}` needs at least one of its arguments",
            "without any it does nothing",
            f"give {' or '.join(f'`{name}`' for name in values)}",
        )
    for parameter, name in kind.traits.formats:
        value = values[parameter]
        items = value if isinstance(value, tuple) else (value,)
        errors = (FORMATS[name](parameter, str(item)) for item in items)
        error = next((error for error in errors if error is not None), None)
        if error is not None:
            yield error
            continue
        flag = kind.traits.no_stars_with
        if flag is not None and values[flag] is True and "*" in items and name != "origin":
            yield FormatError(
                parameter,
                "ADM222",
                f"`*` among the `{parameter}` is a name like any other where `{flag}` is true",
                "browsers take it for all of them only without cookies",
                f"name them all, or leave out `{flag}`",
            )


def _list_item(pattern: re.Pattern[str], cause: str, hint: str) -> Callable[[str, str], FormatError | None]:
    """The format of items that Envoy joins into one header."""

    def check(parameter: str, text: str) -> FormatError | None:
        if pattern.fullmatch(text):
            return None
        return _misfit(parameter, text, cause, hint)

    return check


def _misfit(parameter: str, text: str, cause: str, hint: str) -> FormatError:
    quoted = f"`{shown(text)}`" if text else "an empty string"
    return FormatError(parameter, "ADM215", f"{quoted} does not fit among the `{parameter}`", cause, hint)


def _origin(parameter: str, text: str) -> FormatError | None:
    wrong = wrong_origin(text)
    return None if wrong is None else _misfit(parameter, text, wrong.cause, wrong.hint)


def _header_value(parameter: str, text: str) -> FormatError | None:
    if text == text.strip(" \t"):
        return None
    return FormatError(
        parameter,
        "ADM216",
        "the value of a header cannot begin or end with a blank",
        "receivers remove such blanks, so a match sees them at the sender and not at the receiver",
        f'write `"{text.strip()[:60]}"`',
    )


def _exact(parameter: str, text: str) -> FormatError | None:
    wrong = placeholder(text)
    return None if wrong is None else FormatError(parameter, "ADM222", wrong.message, wrong.cause, wrong.hint)


FORMATS: Final[Mapping[str, Callable[[str, str], FormatError | None]]] = {
    "origin": _origin,
    "method": _list_item(
        _WORD,
        "the methods are joined into one header, so each is one word, or `*` for all",
        'write `["GET", "PUT"]`',
    ),
    "header": _list_item(
        _WORD, "the names are joined into one header, so each is one word, or `*` for all", 'write `["x-a", "x-b"]`'
    ),
    "header value": _header_value,
    "exact": _exact,
}
