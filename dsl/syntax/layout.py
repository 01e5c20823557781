"""One statement as lines: the blanks between its tokens, and its line breaks.

The layout adds only blanks and line breaks. It breaks a line only where a statement may continue in the next line:
inside brackets, and after a `,` or `->`. A line without such a place stays whole, even if it is too long.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from dsl.syntax.scan import begins, is_step
from dsl.syntax.tokens import BESIDE, CONTINUATION, KEYWORDS, TEST, Token

WIDTH = 100
"""Most columns of a line, not counting the comment at its end."""
BODIES = ("service", "external", "call")
REQUEST = "request"
_INDENT = "  "
_OPEN = ("(", "[", "{")
_CLOSE = (")", "]", "}")
_LOGIC = ("when", "and", "or", "not")
_SIGNIFICANT = ("COMMENT", "NEWLINE")
_AHEAD = 8
"""Number of tokens that show whether a line would begin a statement."""


def text(tokens: list[Token], keyword: str) -> str:
    return "".join(pieces_of(tokens, keyword))


def statement(tokens: list[Token]) -> int:
    """Index of the statement's keyword, after its annotations; the number of tokens if there are only annotations."""
    depth = 0
    previous = ""
    for index, token in enumerate(tokens):
        if depth == 0 and previous != "@" and token.text in (*KEYWORDS, *BESIDE):
            return index
        depth += deeper(token)
        previous = token.text
    return len(tokens)


def body(tokens: list[Token], keyword: str) -> int | None:
    """Index of the body's bracket, or None. The brackets of a set come before it, after `call`, `->` or `,`."""
    if keyword not in (*BODIES, REQUEST, TEST):
        return None
    if keyword == TEST and all(token.text != "->" for token in tokens):
        return None  # the brackets of `adm at {a, b}`
    depth = 0
    before = keyword
    for index, token in enumerate(tokens):
        if token.type in _SIGNIFICANT:
            continue
        if token.text == "{" and depth == 0 and (keyword != "call" or (before not in CONTINUATION and index > 1)):
            return index
        depth += deeper(token)
        before = token.text
    return None


def lines(tokens: list[Token], keyword: str) -> list[str]:
    """Lines of at most `WIDTH` columns where possible, indented by depth. Line breaks in `tokens` are kept."""
    pieces = pieces_of(tokens, keyword)
    lengths = [
        0,
        *accumulate(0 if token.type in _SIGNIFICANT else len(piece) for token, piece in _pairs(tokens, pieces)),
    ]
    depths = _depths(tokens)
    # The braces of a request or a test are a better place than its `->`.
    ranks = [max(1, depth) for depth in depths] if keyword in (REQUEST, TEST) else depths
    places = _places(tokens, keyword, pieces)
    laid_out: list[str] = []
    start = index = best = 0  # `best` is where to break the line from `start` on, if it is not `start`
    while index <= len(tokens):
        if index == len(tokens) or tokens[index].type == "NEWLINE":
            laid_out.append(_line(tokens, pieces, depths, start, index))
            index += 1
            start = best = index
            continue
        if index > start and index in places and (best == start or ranks[index] <= ranks[best]):
            best = index
        indent = len(_indent(tokens[start], depths[start])) - len(pieces[start]) + len(pieces[start].lstrip(" "))
        if best > start and indent * (start > 0) + lengths[index + 1] - lengths[start] > WIDTH:
            laid_out.append(_line(tokens, pieces, depths, start, best))
            index = start = best
            continue
        index += 1
    return [line for line in laid_out if line]


def _line(tokens: list[Token], pieces: list[str], depths: list[int], start: int, end: int) -> str:
    line = "".join(pieces[start:end]).strip(" ")
    return _indent(tokens[start], depths[start]) * (start > 0) + line if line else ""


def _pairs(tokens: list[Token], pieces: list[str]) -> zip[tuple[Token, str]]:
    return zip(tokens, pieces, strict=True)


def _indent(token: Token, depth: int) -> str:
    """The indent of a later line of a statement, which begins with `token`."""
    closes = token.type == "SIGN" and token.text in _CLOSE
    return _INDENT * (depth if closes else max(depth, 1))


def deeper(token: Token) -> int:
    return (token.text in _OPEN) - (token.text in _CLOSE)


def _depths(tokens: list[Token]) -> list[int]:
    """The number of brackets around each token; a bracket is not inside itself."""
    depths: list[int] = []
    depth = 0
    for token in tokens:
        depth -= token.text in _CLOSE
        depths.append(depth)
        depth += token.text in _OPEN
    return depths


def _places(tokens: list[Token], keyword: str, pieces: list[str]) -> frozenset[int]:
    """Indices of tokens before which a line break does not end the statement."""
    starts = _item_starts(tokens, keyword)
    places: set[int] = set()
    depth = 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        depth -= token.text in _CLOSE
        fits = (
            before == ","
            or (before == "->" and depth == 0)
            or (before in _OPEN and token.text not in _CLOSE)
            or index in starts
            or (depth > 0 and token.text in ("and", "or"))
        )
        if fits and token.type not in _SIGNIFICANT and not _begins("".join(pieces[index : index + _AHEAD]), keyword):
            places.add(index)
        depth += token.text in _OPEN
    return frozenset(places)


def _begins(line: str, keyword: str) -> bool:
    """Whether a line would begin a statement of its own."""
    return begins(line, 0) and not (keyword == REQUEST and is_step(line))


def pieces_of(tokens: list[Token], keyword: str) -> list[str]:
    """Each token with the blanks before it."""
    opening = body(tokens, keyword)
    starts = _item_starts(tokens, keyword)
    pieces: list[str] = []
    brackets: list[str] = []
    before: Token | None = None
    before_that: Token | None = None
    tight_colon = False
    for index, token in enumerate(tokens):
        if token.type == "NEWLINE":
            pieces.append("\n")
            continue
        if token.type == "COMMENT":
            pieces.append("  " + token.text.rstrip())
            continue
        if token.text == ":":
            named = bool(brackets) and brackets[-1] == "("
            tight_colon = not (named and before_that is not None and before_that.text in ("(", ","))
        if before is None:
            blanks = ""
        elif index in starts and before.text not in ("{", ","):
            blanks = "  "
        else:
            padded = opening is not None and index >= opening
            blanks = " " * _apart(before, token, padded=padded, tight_colon=tight_colon)
        pieces.append(blanks + token.text)
        if token.type == "SIGN":
            if token.text in _OPEN:
                brackets.append(token.text)
            elif token.text in _CLOSE and brackets:
                brackets.pop()
        before_that, before = before, token
    return pieces


def _apart(before: Token, token: Token, *, padded: bool, tight_colon: bool) -> bool:
    """Whether a blank separates two tokens."""
    one, other = before.text, token.text
    if "STRING" in (before.type, token.type) and before.type != "SIGN" and token.type != "SIGN":
        return True
    if before.type == "SIGN":
        if one in ("(", "[", "@", "+"):
            return False
        if one == "..":
            return other == "by"
        if one == "{":
            return padded and other != "}"
        if one == ":":
            return not tight_colon
    if token.type == "SIGN":
        if other in (")", "]", ",", ":", "?", ".."):
            return False
        if other == "}":
            return padded
        if other == "(":
            return before.type != "NAME" or one in _LOGIC
    return True


def _item_starts(tokens: list[Token], keyword: str) -> frozenset[int]:
    """Indices at which items of a body and of its labels begin; two blanks separate them."""
    opening = body(tokens, keyword)
    if opening is None:
        return frozenset()
    order = [index for index in range(opening + 1, len(tokens)) if tokens[index].type not in _SIGNIFICANT]
    words = [tokens[index] for index in order]
    if keyword == REQUEST:
        return frozenset(order[at] for at in _step_starts(words))
    if keyword == TEST:
        return frozenset(order[at] for at in _test_item_starts(words))
    starts: set[int] = set()
    at = 0
    while at < len(words) and words[at].text != "}":
        starts.add(order[at])
        word = words[at].text
        at += 1
        if word in ("tcp", "http", "grpc"):
            at += words[at].type == "NAME"
            at += 1
            at += 2 * (at < len(words) and words[at].text == "->")
        elif word == "labels":
            at += 1
            while words[at].text != "}":
                if words[at].text == ",":
                    at += 1
                    continue
                starts.add(order[at])
                at += 3 if words[at + 1].text == "=" else 1
            at += 1
        elif word not in ("untrusted", "host_network"):
            at += 1
    return frozenset(starts)


def _test_item_starts(words: list[Token]) -> Iterator[int]:
    """Indices at which items begin in the braces of a test: `path "/a"`, `header("x") "1"`, `no header("x")`."""
    at = 0
    while at < len(words) and words[at].text != "}":
        yield at
        at += words[at].text == "no"
        header = at < len(words) and words[at].text == "header"
        at += 4 if header else 2
        at += header and at < len(words) and words[at].type == "STRING"


def _step_starts(words: list[Token]) -> Iterator[int]:
    """Indices at which items begin in the braces of a request. A name may be a word of the language: `call call`."""
    at = 0
    while at < len(words):
        word = words[at].text
        if word in _OPEN or word in _CLOSE:
            at += 1
            continue
        yield at
        if word in ("call", "async"):
            at += 3 if word == "async" else 2
            at += 2 * (at < len(words) and words[at].text == ":")
        else:
            at += 1 if word == "together" else 2
