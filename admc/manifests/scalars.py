"""The value that `kubectl` reads in a plain scalar of YAML.

`kubectl` and the API server read YAML by one library, which follows YAML 1.1 in some rules and YAML 1.2 in others: `y`
is true, `22:22` is a text and no number to the base of 60, `08` is 8. If admc read another value, it would judge the
pod by it (with `hostNetwork: y` a pod is on its node's network), and would write it where a part of a document is
written anew.
"""

from __future__ import annotations

import math
import re
from typing import Final

_WORDS: Final[dict[str, bool | float | None]] = {
    **{spelling: True for word in ("yes", "true", "on") for spelling in (word, word.title(), word.upper())},
    **{spelling: False for word in ("no", "false", "off") for spelling in (word, word.title(), word.upper())},
    **dict.fromkeys(("y", "Y"), True),
    **dict.fromkeys(("n", "N"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 64) - 1
_DIGITS: Final = 80
"""The most digits of a number of 64 bits, with its sign and some zeros before it."""
_BASES: Final = {"x": 16, "b": 2, "o": 8}

Value = str | int | float | bool | None


def plain(text: str) -> Value:
    """The value of a scalar without quotes and without a tag.

    >>> [plain(text) for text in ("y", "0123", "0o17", "1_000", "08", "1e3", "22:22", "2026-11-23", "1.2.3")]
    [True, 83, 15, 1000, 8.0, 1000.0, '22:22', '2026-11-23', '1.2.3']
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        return _float(text)
    if text[0] in "+-0123456789":
        digits = text.replace("_", "")
        integer = _integer(digits)
        return integer if integer is not None else text if isinstance(_float(digits), str) else _float(digits)
    return text


def key(text: str) -> str | None:
    """The text of a key without quotes and without a tag; None for one that `kubectl` refuses.

    >>> key("on"), key("0x10"), key("app"), key("~")
    ('true', '16', 'app', None)
    """
    scalar = plain(text)
    if isinstance(scalar, bool):
        return str(scalar).lower()
    # `kubectl` writes numbers with a fraction anew, and no object has such keys.
    return None if scalar is None else text if isinstance(scalar, float) else str(scalar)


def _integer(digits: str) -> int | None:
    record = _INTEGER.fullmatch(digits) if len(digits) <= _DIGITS else None
    if record is None:
        return None
    sign, number = record.groups()
    base = _BASES.get(number[1:2].lower(), 8 if number[:1] == "0" and len(number) > 1 else 10)
    value = int(number[2:] if base != 10 and number[1:2].lower() in _BASES else number, base)
    value = -value if sign == "-" else value
    # A number with a sign has 63 bits, one without has 64.
    return value if _LOWEST <= value <= (_HIGHEST >> bool(sign)) else None


def _float(text: str) -> float | str:
    if _FLOAT.fullmatch(text) is None:
        return text
    value = float(text)
    return text if math.isinf(value) else value
