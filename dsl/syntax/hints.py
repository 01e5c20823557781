"""What somebody most likely meant who wrote what no statement allows: slips that a parser alone cannot explain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dsl import units
from dsl.vocabulary import other_meshes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dsl.syntax.tokens import Token

WITHIN_TLS = frozenset(("https", "grpcs", "tls", "ssl", "mtls"))
LINE_ENDS = "end each line with a line feed (LF), or with CR and LF"
CONTINUES = "a line goes on in the next one only inside brackets, or where it ends in `,` or `->`"

_NO_YAML = "write what it asks for as policies; `admc explain kinds` lists what Istio and Envoy call each kind"
_FIRST_WORDS = frozenset(("app", "use", "topology", "external", "service", "call", "policy", "pin", "objective"))
"""Of statements; `kind` is none of them here, since files of Kubernetes begin with it."""
# Blank lines, comments and `---`, then `---` or a key.
_YAML = re.compile(
    r"\ufeff?(?:[ \t]*(?:#[^\n]*|//[^\n]*|---[ \t]*)?\r?\n)*"
    r"(?:(?P<line>---[ \t\r]*$)|[ \t]*(?P<key>[A-Za-z][\w./-]*):(?=\s|$))",
    re.MULTILINE,
)
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_UNIT = re.compile(r"[ \t]+((?:/[A-Za-z]+)|%)")
_BEFORE_QUANTITIES = frozenset((":", "=", ",", "(", "[", "rate", "size"))
_OPERATORS = ("==", "!=")


class OtherLanguage(NamedTuple):
    """A text that is no program but something else, and the place that gives it away."""

    language: str
    start: int
    end: int
    cause: str
    hint: str


def other_language(text: str) -> OtherLanguage | None:
    """For YAML and JSON, by the first line that is neither blank nor a comment. No statement begins like either."""
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        at = len(text) - len(text.lstrip("\ufeff \t\r\n"))
        cause = "no statement starts with a bracket"
        hint = "give the program itself; it names a topology in JSON with `topology "
        return OtherLanguage("JSON", at, at + 1, cause, hint + '"FILE.json"`')
    found = _YAML.match(text)
    if found is None or found["key"] in _FIRST_WORDS:
        return None
    if found["key"] is None:
        return OtherLanguage("YAML", found.start("line"), found.end("line"), "no statement starts with `---`", _NO_YAML)
    cause = f"it starts with the key `{found['key'][:40]}`"
    if found["key"] in ("apiVersion", "kind", "metadata", "spec"):
        cause += ", as configuration of Kubernetes and Istio does"
    return OtherLanguage("YAML", found.start("key"), found.end("key"), cause, _NO_YAML)


def protocol(word: str, number: str = "") -> str | None:
    """For a protocol that is another one inside TLS, of a port whose `number` may be known."""
    if word not in WITHIN_TLS:
        return None
    return f"no proxy on the way can look into TLS, so its port is `{f'tcp {number}'.rstrip()}`"


def apart(text: str, token: Token) -> str | None:
    """For a unit that no word can be (`/s`, `%`) and that stands apart from the number `token`."""
    unit = _UNIT.match(text, token.end)
    if token.type != "NUMBER" or unit is None:
        return None
    return _joined(token.text + unit[1])


def of(text: str, tokens: Sequence[Token], at: int, expected: Collection[str]) -> str | None:
    """For token `at`, which is unexpected where the words and signs of `expected` could stand."""
    token = tokens[at]
    before = tokens[at - 1] if at else None
    if before is not None and "\r" in text[before.end : token.start].replace("\r\n", ""):
        return LINE_ENDS
    quantity = at >= 2 and tokens[at - 2].text in _BEFORE_QUANTITIES and token.text in units.WORDS
    if before is not None and quantity and _PLAIN_NUMBER.fullmatch(before.text):
        return _joined(before.text + token.text)
    if token.text == "=" and "==" in expected:
        return "write `==` for a comparison"
    if all(operator in expected for operator in _OPERATORS):
        return other_meshes.operator(token.text)
    if "tcp" not in expected:
        return None
    return protocol(token.text, next((after.text for after in tokens[at + 1 : at + 3] if after.type == "NUMBER"), ""))


def possible(expected: Collection[str], before: str) -> list[str]:
    """What can stand here after `before`: only `header` takes something in parentheses, and it always does."""
    if not all(operator in expected for operator in _OPERATORS):
        return list(expected)
    return ["("] if before == "header" else [word for word in expected if word != "("]


def _joined(number: str) -> str:
    return f"write `{number}` without a space"
