"""Cuts a text into tokens and logical lines.

A statement ends at the end of its line, except inside brackets and after a `,` or `->`: then it continues in the next
line that is not blank. A line that begins a statement ends the statement before it, even an incomplete one, unless it
is a step in a request or a label. The text is cut before it is parsed, so an error in one statement does not affect the
others. The formatter reads the same tokens, so parser and formatter agree about comments and strings.
"""

from __future__ import annotations

import re
from typing import Final

from dsl.syntax import hints
from dsl.syntax.tokens import (
    BESIDE,
    CONTINUATION,
    KEYWORDS,
    MAX_WORD,
    NAME,
    STATED,
    LexicalError,
    LogicalLine,
    Token,
)

MAX_DEPTH = 64
MAX_TOKENS = 500_000
"""Most tokens in one statement: a call to 200,000 destinations."""
_TOKEN = re.compile(
    r"""
    (?P<BLANK>[ \t\r\ufeff]+)
  | (?P<NEWLINE>\n)
  | (?P<COMMENT>//[^\n]*)
  | (?P<WORD>[A-Za-z_*][A-Za-z0-9_*]*(?:-[A-Za-z0-9_*]+)*)
  | (?P<NUMBER>-?[0-9]+(?:\.[0-9]+)?[A-Za-z0-9_%µ]*(?:/[A-Za-z0-9]+)?)
  | (?P<SIGN>->|==|!=|<=|>=|\.\.|[{}()\[\],:=@?]|>(?=[ \t]*\+?[ \t]*[0-9])|\+(?=[ \t]*[0-9]))
  | (?P<STRING>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<OPEN>"[^\n]*)
  | (?P<BAD>.)
    """,
    re.VERBOSE,
)
_BLANKS = r"[ \t\r\ufeff]*"
# Inside brackets (except those of `_LABELS`) and after a `,` or `->`, two names never follow each other, so a line that
# starts like this begins a statement. The one exception, `policy except a` with a service named `policy`, is also read
# as a statement. A body never starts with a name and `,`, and nothing follows it, so `call {a,` and `call {a} ->` are
# calls.
# `profile` is a common name of services: `-> search,` continues with `profile when ...`, so a line that begins with it
# begins a statement only if no more than the name of the profile follows. `test` and `gate` may be names of services,
# too: a statement begins only with `test NAME =`. So may `accept` and `network_policies`: only the whole statement
# begins one, as `-> search,` may continue with `accept accept drop`.
_STATED = "|".join(rf"{first}[ \t]+{second}" for first, second in STATED.items())
_BEGINS = re.compile(
    rf"{_BLANKS}(?:(?:{'|'.join(word for word in KEYWORDS if word not in ('profile', *STATED))})[ \t]+[\"A-Za-z_]"
    rf"|@[A-Za-z_]"
    rf"|(?:{_STATED}){_BLANKS}(?://|\n|\Z)"
    rf"|profile[ \t]+(?:\"|{NAME}{_BLANKS}(?://|\n|\Z))"
    rf"|(?:{'|'.join(BESIDE)})[ \t]+{NAME}[ \t]*=(?!=)"
    rf"|call[ \t]*\{{[ \t]*{NAME}[ \t]*(?:,|\}}[ \t]*->))"
)
# In the braces of a request, a line that begins with `call NAME` is a step, and not a statement `call a, b -> c`.
_STEP = re.compile(rf"{_BLANKS}call[ \t]+(?>{NAME})(?>(?:[ \t]*:[ \t]*(?:{NAME}|[0-9]+))?){_BLANKS}+(?!,|->)")
# The remainder of `labels { ... }`, in which `app  tier = "db"` is an ordinary line.
_LABELS = re.compile(rf'(?:[\s,=]|//[^\n]*|{NAME}|"(?:[^"\\\n]|\\[^\n])*")*+\}}')
_APP = re.compile(rf"^{_BLANKS}app\b", re.MULTILINE)
_EMPTY_LINES = re.compile(rf"(?:{_BLANKS}(?://[^\n]*)?\n)*+")
_NOTHING = re.compile(rf"{_BLANKS}(?://[^\n]*)?\Z")
_FIRST = re.compile(rf"{_BLANKS}(?:(?P<NAME>{NAME})|(?P<SIGN>->|[=,{{(]))")
_OPENERS = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = frozenset(_OPENERS.values())


def next_line(text: str, position: int, *, comments: bool = False) -> LogicalLine:
    """The first logical line at or after `position`; it has no tokens where only blank lines and comments are left.

    With `comments`, comments and line breaks inside brackets are tokens as well, and a comment before the statement
    is a line of its own.
    """
    tokens: list[Token] = []
    brackets: list[Token] = []
    error: LexicalError | None = None
    last = ""
    plain = position  # no line that starts before this offset begins a statement
    for match in _TOKEN.finditer(text, position):
        type_ = match.lastgroup
        if type_ == "BLANK":
            continue
        start, end = match.span()
        if type_ == "NEWLINE":
            if not brackets and last not in CONTINUATION:
                if tokens:
                    return LogicalLine(tokens, end, error)
                continue
            if end > plain:
                resume_at = _in_brackets(text, end, brackets, tokens) if brackets else _after_sign(text, end)
                if resume_at is None:
                    return LogicalLine(tokens, end, error or (_unclosed(brackets[0]) if brackets else None))
                plain = resume_at
            if comments:
                tokens.append(Token("NEWLINE", "\n", start, end))
            continue
        word = match.group()
        if type_ == "COMMENT":
            if comments:
                tokens.append(Token("COMMENT", word, start, end))
            continue
        if type_ == "WORD":
            type_ = "GLOB" if "*" in word else "NAME"
        elif type_ == "SIGN":
            if word in _OPENERS:
                brackets.append(Token("LABELS" if last == "labels" else "SIGN", word, start, end))
                if len(brackets) > MAX_DEPTH:
                    error = error or _too_deep(start)
            elif word in _CLOSERS and brackets:
                brackets.pop()
        elif type_ in ("OPEN", "BAD"):
            error = error or _bad(text, word, start, end, hints.detached_unit(text, tokens[-1]) if tokens else None)
        if end - start > MAX_WORD and type_ in ("NAME", "GLOB", "NUMBER"):
            error = error or LexicalError(
                "ADM009", f"`{word[:40]}...` is longer than {MAX_WORD} characters", start, end
            )
        if len(tokens) < MAX_TOKENS:
            tokens.append(Token(type_ or "", word, start, end))
        else:
            error = error or LexicalError("ADM009", f"a statement has at most {MAX_TOKENS} words and signs", start, end)
        last = word
    if brackets:
        error = error or _unclosed(brackets[0])
    return LogicalLine(tokens, len(text), error)


def has_app(text: str) -> bool:
    """Whether a statement of the text, valid or not, starts with `app`."""
    if _APP.search(text) is None:
        return False
    position = 0
    while True:
        line = next_line(text, position)
        if not line.tokens or line.tokens[0].text == "app":
            return bool(line.tokens)
        position = line.next


def begins(text: str, position: int) -> bool:
    """Whether the line at or after `position` that is not blank begins a statement."""
    return _BEGINS.match(text, _past_blank_lines(text, position)) is not None


def is_request(tokens: list[Token]) -> bool:
    """Whether a statement is a request, perhaps with a misspelt keyword: `requst NAME on ...`."""
    first = tokens[0]
    return first.text == "request" or (
        first.type == "NAME" and first.text not in KEYWORDS and len(tokens) > 2 and tokens[2].text == "on"
    )


def is_step(text: str, position: int = 0) -> bool:
    """Whether the line at `position` is a step if it stands in the braces of a request."""
    return _STEP.match(text, position) is not None


def first_token(text: str, position: int) -> Token | None:
    """The first name or sign of the line at or after `position`, unless that line begins a statement."""
    first = None if begins(text, position) else _FIRST.match(text, _past_blank_lines(text, position))
    if first is None:
        return None
    group = first.lastgroup or ""
    return Token(group, first[group], *first.span(group))


def _past_blank_lines(text: str, position: int) -> int:
    blank = _EMPTY_LINES.match(text, position)
    return position if blank is None else blank.end()


def _in_brackets(text: str, start: int, brackets: list[Token], tokens: list[Token]) -> int | None:
    """An offset before which no line begins a statement; None if the line at `start` begins one although brackets are
    open."""
    if _BEGINS.match(text, start) is None:
        return start
    if is_request(tokens) and _STEP.match(text, start):
        return start
    # A service may be named `labels`; its braces are not inside other braces.
    labels = _LABELS.match(text, start) if len(brackets) > 1 and brackets[-1].type == "LABELS" else None
    return None if labels is None else labels.end()


def _after_sign(text: str, start: int) -> int | None:
    """As `_in_brackets`, but after a line that ends in `,` or `->`, for the next line that is not blank. None if there
    is no such line."""
    following = _past_blank_lines(text, start)
    return None if _BEGINS.match(text, following) or _NOTHING.match(text, following) else following


def _unclosed(opener: Token) -> LexicalError:
    return LexicalError(
        "ADM005",
        f"`{opener.text}` is not closed",
        opener.start,
        opener.end,
        f"close it with `{_OPENERS[opener.text]}`",
    )


def _too_deep(start: int) -> LexicalError:
    return LexicalError("ADM006", f"brackets are nested deeper than {MAX_DEPTH} levels", start, start + 1)


_QUOTES: Final = 'strings stand in straight double quotes: `"..."`'
_BLANK: Final = "write a plain space instead of this one"


def _bad(text: str, word: str, start: int, end: int, meant: str | None) -> LexicalError:
    if len(word) > 1 or word == '"':
        return LexicalError(
            "ADM003",
            "this string is not closed",
            start,
            end,
            'close it with `"` on the same line; `\\n` is a line break',
        )
    around = hints.number_around(text, start) if word in (".", "'") else None
    hint = (
        meant
        or around
        or hints.sign_in_line(text, word, start)
        or {
            "'": 'strings stand in double quotes: `"..."`',
            "#": "comments start with `//`",
            "/": "comments start with `//`",
            ";": "a statement ends at the end of its line",
            "-": "an arrow is written `->`; a name does not end with `-`",
            ">": "an arrow is written `->`",
            "&": "write `and`",
            "|": "write `or`",
            "!": "write `not`, or `!=` for a comparison",
            "~": "write `matches` for a regular expression",
            ".": 'a name has no `.`; hosts, addresses and paths stand in quotes, as in `cidr "10.0.0.0/8"`',
            "<": "an arrow is written `->`, from the caller to the service that it calls",
            "$": "a program has no variables: write the value",
            "`": _QUOTES,
            "\ufeff": "delete this invisible character: a byte order mark stands at the start of a file only",
            **dict.fromkeys("\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u00ab\u00bb\u2039\u203a\uff02\u2033", _QUOTES),
            **dict.fromkeys("\u2192\u21d2\u27f6\u27f9\u2794\u279c\u2190", "an arrow is written `->`, with `-` and `>`"),
            **dict.fromkeys(
                "\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "write the plain `-` of the keyboard; an arrow is `->`"
            ),
            **dict.fromkeys("\u2260", "write `!=`"),
            **dict.fromkeys("\uff08\uff09\uff1a\uff0c\uff1b\uff1d\u3001", "write the plain sign of the keyboard"),
            **dict.fromkeys("\u200b\u200c\u200d\u2060\u00ad", "delete this invisible character"),
        }.get(word)
        or (_BLANK if word.isspace() else None)
    )
    shown = (
        f"`{word}`" if word.isprintable() and not word.isspace() and word != "`" else f"the character U+{ord(word):04X}"
    )
    return LexicalError("ADM002", f"{shown} is not allowed here", start, end, hint)


_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|[^\n])")
_PLAIN = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}


def unescape(literal: str) -> str | LexicalError:
    """The value of a string literal, given with its quotes. Offsets of an error are relative to the literal."""
    body = literal[1:-1]
    if "\\" not in body:
        return body
    error: list[LexicalError] = []

    def replace(escape: re.Match[str]) -> str:
        letter = escape[1]
        if letter[0] == "u" and len(letter) == 5:
            code = int(letter[1:], 16)
            if not 0xD800 <= code <= 0xDFFF:
                return chr(code)
        elif letter in _PLAIN:
            return _PLAIN[letter]
        start, end = escape.span()
        hint = 'known are `\\"`, `\\\\`, `\\n`, `\\t`, `\\r` and `\\uXXXX`; a backslash itself is `\\\\`'
        error.append(LexicalError("ADM004", f"`{escape[0]}` is not an escape", start + 1, end + 1, hint))
        return ""

    value = _ESCAPE.sub(replace, body)
    return error[0] if error else value
