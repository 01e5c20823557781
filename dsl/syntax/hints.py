"""Hints for text that no statement allows: likely intentions that the parser alone cannot derive."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from dsl import units
from dsl.notations import MANY_POINTS, MOST, as_here
from dsl.syntax.tokens import KEYWORDS
from dsl.vocabulary import other_meshes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dsl.syntax.tokens import Token

WITHIN_TLS = frozenset(("https", "grpcs", "tls", "ssl", "mtls"))
LINE_ENDS = "end each line with a line feed (LF), or with CR and LF"
CONTINUES = "a statement continues in the next line only inside brackets, or after a `,` or `->`"

_NO_YAML = "write its rules as policies; `admc explain kinds` lists what Istio and Envoy call each kind"
_FIRST_WORDS = frozenset(KEYWORDS) - {"kind"}
"""First words of statements, except `kind`, with which files of Kubernetes begin."""
# Blank lines, comments and `---`, then `---` or a key.
_YAML = re.compile(
    r"\ufeff?(?:[ \t]*(?:#[^\n]*|//[^\n]*|---[ \t]*)?\r?\n)*"
    r"(?:(?P<line>---[ \t\r]*$)|[ \t]*(?P<key>[A-Za-z][\w./-]*):(?=\s|$))",
    re.MULTILINE,
)
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NUMBER_SIGNS = re.compile(r"[0-9A-Za-z_.'%+]*(?:/[A-Za-z]+)?")
_NUMBER_BEFORE = re.compile(r"[0-9A-Za-z_.'%+]*\Z")
_GROUP_BEFORE = re.compile(r"(?<![0-9A-Za-z_.,])[0-9]{1,3}(?:,[0-9]{3})*,\Z")
_GROUP_AFTER = re.compile(r"(?:,[0-9]{3}){1,10}(?![0-9])[A-Za-z%]*")
_VALUE_BEFORE = re.compile(r"(?:==|!=|\b(?:starts_with|matches)|[:,(\[])[ \t]*\Z")
_FIELD_BEFORE = re.compile(r"\bwhen\b.*\b(?:path|method|host|headers?|req|request)\Z")
_COUNT_BEFORE = re.compile(r"[ \t]*(?:test|gate)\b.*=.*[\w)][ \t]*\Z")
_PATH = re.compile(r"/(?![/*])[A-Za-z0-9_./-]{0,80}")
_UNIT = re.compile(r"[ \t]+((?:/[A-Za-z]+)|%)")
_BEFORE_QUANTITIES = frozenset((":", "=", ",", "(", "[", "rate", "size", "work"))
_OPERATORS = ("==", "!=")


class OtherLanguage(NamedTuple):
    """A text in another language than this one, with the place that shows it."""

    language: str
    start: int
    end: int
    cause: str
    hint: str


def other_language(text: str) -> OtherLanguage | None:
    """Whether a text is YAML or JSON, by its first line that is neither blank nor a comment; None for other texts. No
    statement begins like either."""
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        at = len(text) - len(text.lstrip("\ufeff \t\r\n"))
        cause = "no statement starts with a bracket"
        hint = "give the program itself; a program includes a JSON topology with `topology "
        return OtherLanguage("JSON", at, at + 1, cause, hint + '"FILE.json"`')
    beginning = _YAML.match(text)
    if beginning is None or beginning["key"] in _FIRST_WORDS:
        return None
    if beginning["key"] is None:
        return OtherLanguage(
            "YAML", beginning.start("line"), beginning.end("line"), "no statement starts with `---`", _NO_YAML
        )
    cause = f"it starts with the key `{beginning['key'][:40]}`"
    if beginning["key"] in ("apiVersion", "kind", "metadata", "spec"):
        cause += ", as configuration of Kubernetes and Istio does"
    return OtherLanguage("YAML", beginning.start("key"), beginning.end("key"), cause, _NO_YAML)


def protocol(word: str, number: str = "") -> str | None:
    """The hint for a protocol inside TLS, of the port `number`."""
    if word not in WITHIN_TLS:
        return None
    return f"a proxy cannot read inside TLS, so declare its port as `{f'tcp {number}'.rstrip()}`"


def number_around(text: str, start: int) -> str | None:
    """The hint for the sign at `start`, if it stands in or beside a number: the number as a program writes it."""
    before = _NUMBER_BEFORE.search(text[max(0, start - MOST) : start])
    run = _NUMBER_SIGNS.match(text, start - (len(before[0]) if before else 0))
    if run is None or not any(letter.isdigit() for letter in run[0]):
        return None
    meant = as_here(run[0])
    if meant is not None:
        return f"write `{meant}`"
    return "a number has one decimal point, such as `1.5`" if MANY_POINTS.fullmatch(run[0]) else None


def sign_in_line(text: str, sign: str, start: int) -> str | None:
    """The hint for the sign at `start`, if the text before it in its line shows the purpose of the sign."""
    before = text[max(text.rfind("\n", 0, start) + 1, start - MOST) : start]
    if sign == "/" and _VALUE_BEFORE.search(before) and (path := _PATH.match(text, start)) is not None:
        return f'write it in quotes: `"{path[0]}"`'
    if sign == "." and _FIELD_BEFORE.search(before):
        return 'a condition compares `path`, `method`, `host` or `header("x-name")`, as in `path starts_with "/x"`'
    if sign == "<" and _COUNT_BEFORE.search(before):
        return "write `<=`"
    return None


def detached_unit(text: str, token: Token) -> str | None:
    """The hint for a unit that is not a word (`/s`, `%`) and is separated from its number `token` by blanks."""
    unit = _UNIT.match(text, token.end)
    if token.type != "NUMBER" or unit is None:
        return None
    return _joined(token.text + unit[1])


def unexpected_token(text: str, tokens: Sequence[Token], at: int, expected: Collection[str]) -> str | None:
    """The hint for token `at`, which stands where only the words and signs of `expected` are allowed."""
    token = tokens[at]
    before = tokens[at - 1] if at else None
    if before is not None and "\r" in text[before.end : token.start].replace("\r\n", ""):
        return LINE_ENDS
    if (meant := _other_number(text, tokens, at)) is not None:
        return f"write `{meant}`"
    quantity = at >= 2 and tokens[at - 2].text in _BEFORE_QUANTITIES and token.text in units.WORDS
    if before is not None and quantity and _PLAIN_NUMBER.fullmatch(before.text):
        return _joined(before.text + token.text)
    if before is not None and (misplaced := _accept(before.text, token.text, expected)) is not None:
        return misplaced
    if token.text == "=" and "==" in expected:
        return "write `==` for a comparison"
    sign = _sign(tokens, at, expected)
    if sign is not None:
        return sign
    if all(operator in expected for operator in _OPERATORS):
        if token.text == "[":
            return 'a header is written `header("x-name")`'
        return other_meshes.operator(token.text) or other_meshes.misplaced(token.text)
    if "tcp" not in expected:
        return other_meshes.misplaced(token.text) if token.type == "NAME" else None
    if token.type == "NUMBER":
        return f"a port is written with its protocol: `http {token.text}`, `grpc {token.text}` or `tcp {token.text}`"
    return other_meshes.misplaced(token.text) or protocol(
        token.text, next((after.text for after in tokens[at + 1 : at + 3] if after.type == "NUMBER"), "")
    )


def _accept(before: str, word: str, expected: Collection[str]) -> str | None:
    """The hint for one of the two forms of `accept` in the place of the other, or before a `when`."""
    if (before, word) == ("accept", "drop"):
        return "`accept drop` stands at the end of its policy, on the same line"
    if (before, word) == ("accept", "host_network"):
        return "`accept host_network` is a statement of its own: write it on a line of its own"
    if (before, word) == ("drop", "when") and not expected:
        return "`accept drop` is for a policy without a match: remove one of them"
    return None


def _sign(tokens: Sequence[Token], at: int, expected: Collection[str]) -> str | None:
    """The hint for a sign that other languages have in this place."""
    token, before = tokens[at], tokens[at - 1] if at else None
    if before is None:
        return None
    if token.text == ":" and before.text in ("http", "grpc", "tcp", "rate", "size", "replicas", "labels", "namespace"):
        return f"write it without `:`, as in `{_WITHOUT_COLON[before.text]}`"
    if token.text == "=" and before.text in ("http", "grpc", "tcp"):
        return f"write it without `=`, as in `{_WITHOUT_COLON[before.text]}`"
    if token.text == "," and "tcp" in expected:
        return "items in the braces of a service are separated by blanks, not by commas"
    if token.text == "=" and ":" in expected:
        return "write `:` between the name of an argument and its value"
    if token.text == ":" and "=" in expected:
        return "write `=` here"
    if token.text == "(" and ":" in expected and at >= 2 and tokens[at - 2].text == ":":
        return _no_parameter(tokens, at) or (
            "an argument is a number, a string, a name or a list; what a request has is asked in its `when`"
        )
    if token.text == "@":
        return "an annotation stands on a line of its own, before the policy"
    if token.type == "STRING" and not expected:
        return "write names without quotes"
    return None


def _no_parameter(tokens: Sequence[Token], at: int) -> str | None:
    """The hint for `policy NAME = KIND(PARAMETER: header(...))`, where the kind cannot have such a parameter."""
    kind = next((after.text for token, after in pairwise(tokens) if token.text == "="), "")
    hint = other_meshes.parameter(kind, tokens[at - 3].text, ()) if at >= 3 else None
    return hint if hint is not None and " " in hint else None


_WITHOUT_COLON = {
    "http": "http 8080",
    "grpc": "grpc 9000",
    "tcp": "tcp 5432",
    "rate": "rate 20/s",
    "size": "size 2KB",
    "replicas": "replicas 2",
    "labels": 'labels { tier = "db" }',
    "namespace": "namespace shop",
}


def following(expected: Collection[str], before: str) -> list[str]:
    """The words and signs of `expected` that can follow `before`: `(` follows `header`, and nothing else does."""
    if not all(operator in expected for operator in _OPERATORS):
        return list(expected)
    return ["("] if before == "header" else [word for word in expected if word != "("]


def _other_number(text: str, tokens: Sequence[Token], at: int) -> str | None:
    """A number that its notation divides into several tokens: `+5`, `1,000`, `1 000`."""
    first = at if tokens[at].text == "+" else at - 1
    if first < 0 or (tokens[at].text not in ("+", ",") and tokens[at].type != "NUMBER"):
        return None
    last = at + 1 if tokens[at].text in ("+", ",") else at
    if last >= len(tokens) or tokens[last].type != "NUMBER":
        return None
    return as_here(text[tokens[first].start : tokens[last].end])


def thousands(text: str, start: int, end: int) -> str | None:
    """The hint for the number from `start` to `end`, if it is the end of one like `1,000`."""
    before = _GROUP_BEFORE.search(text[max(0, start - MOST) : start])
    after = _GROUP_AFTER.match(text, end)
    meant = None if before is None else as_here(before[0] + text[start : after.end() if after else end])
    return None if meant is None else f"write `{meant}`"


def _joined(number: str) -> str:
    return f"write `{number}` without a space"
