"""Text to syntax tree, one statement at a time, so that one run finds the errors of all statements.

lark and its grammar are loaded on first use, since help pages need neither.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.syntax import fastpath, hints, tree
from dsl.syntax.scan import begins, first_token, is_request, is_step, next_line, unescape
from dsl.syntax.tokens import BESIDE, CONTINUATION, KEYWORDS, STATED, LexicalError, LogicalLine, Token
from dsl.text import SourceText, Span
from dsl.vocabulary import other_meshes
from dsl.vocabulary.guide import guides

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lark
    from lark.exceptions import UnexpectedToken

_GRAMMAR = Path(__file__).with_name("grammar.lark")


def parse(source: SourceText, diagnostics: Diagnostics, *, fast: bool = True) -> tree.Module:
    """All statements of one file. A statement with an error is reported, and becomes a `Broken`; after the last error
    that is shown, the remainder of the file is left out. Without `fast`, lark parses every statement (tests compare
    both ways)."""
    text = source.text
    statements: list[tree.Declared] = []
    pending: list[tree.Annotation] = []
    position = 0
    if "\n" not in text and "\r" in text.rstrip():
        return _one_line(source, diagnostics)
    other = hints.other_language(text)
    if other is not None:
        return _no_program(source, other, diagnostics)
    while position < len(text) and not diagnostics.full:
        if fast and not pending:
            position = fastpath.read(source, position, statements)
        line = next_line(text, position)
        if not line.tokens:
            break
        if _is_stray_step(text, line, statements):
            position = _stray_steps(source, line, statements, diagnostics)
            continue
        statement, position = _statement(source, line, diagnostics)
        if isinstance(statement, tree.AnnotationLine):
            pending.extend(statement.annotations)
            continue
        if pending and isinstance(statement, tree.Kind | tree.Policy):
            statement = statement._replace(annotations=(*pending, *statement.annotations))
        elif pending and not isinstance(statement, tree.Broken):
            _stray(pending, diagnostics)
        pending.clear()
        statements.append(statement)
    if pending:
        _stray(pending, diagnostics)
    return tree.Module(source, tuple(statements))


def _one_line(source: SourceText, diagnostics: Diagnostics) -> tree.Module:
    """Reports a file whose lines end with CR alone, which would be a single line, with one error."""
    at = source.text.index("\r")
    span = Span(source, at, at + 1)
    message = "the lines of this file end with a carriage return (CR) alone"
    diagnostics.error("ADM002", message, span, hint=hints.LINE_ENDS)
    return _unread(source, span)


def _no_program(source: SourceText, other: hints.OtherLanguage, diagnostics: Diagnostics) -> tree.Module:
    """Reports a file in YAML or JSON with one error, instead of one for each line."""
    span = Span(source, other.start, other.end)
    message = f"this file is {other.language}, and a program is expected"
    diagnostics.error("ADM008", message, span, cause=other.cause, hint=other.hint)
    return _unread(source, span)


def _unread(source: SourceText, span: Span) -> tree.Module:
    return tree.Module(source, tuple(tree.Broken(keyword, (), span) for keyword in ("app", "use", "call")))


def _stray(annotations: list[tree.Annotation], diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "ADM007",
        f"no kind or policy follows the annotation `{annotations[0].span.text}`",
        annotations[0].span,
        cause="annotations describe the `kind` or the `policy` that follows them",
        hint="put it on the line before a `kind` or a `policy`, or remove it",
    )


_IN_REQUESTS = frozenset(("}", "rate", "work", "chance", "times", "together", "async"))


def _is_stray_step(text: str, line: LogicalLine, statements: list[tree.Declared]) -> bool:
    """Whether a line is a step that follows a request, whose braces were closed too early."""
    before = statements[-1] if statements else None
    in_request = isinstance(before, tree.Request) or (isinstance(before, tree.Broken) and before.keyword == "request")
    return in_request and is_step(text, line.tokens[0].start)


def _stray_steps(
    source: SourceText, line: LogicalLine, statements: list[tree.Declared], diagnostics: Diagnostics
) -> int:
    """Skips the remainder of a request; returns the offset at which the next statement begins."""
    if isinstance(statements[-1], tree.Request):
        diagnostics.error(
            "ADM001",
            f"the step `call {_short(line.tokens[1].text)}` stands outside the braces of a request",
            Span(source, line.tokens[0].start, line.tokens[1].end),
            cause=f"the braces of the request `{_short(statements[-1].name.text)}` are closed before it",
            hint="remove a `}` before it; a call is declared with `call SOURCES -> DESTINATIONS`",
        )
        statements[-1] = tree.Broken("request", (statements[-1].name.text,), statements[-1].span)
    while line.tokens and (line.tokens[0].text in _IN_REQUESTS or is_step(source.text, line.tokens[0].start)):
        position = line.next
        line = next_line(source.text, position)
    return position


def _statement(source: SourceText, line: LogicalLine, diagnostics: Diagnostics) -> tuple[Parsed, int]:
    """The statement or the annotations of a line, and the offset at which the next statement begins."""
    span = line.span(source)
    values: dict[int, str] = {}
    lexical_error = line.error
    for token in line.tokens if lexical_error is None else ():
        if token.type == "STRING":
            value = unescape(token.text)
            if isinstance(value, LexicalError):
                lexical_error = value._replace(start=value.start + token.start, end=value.end + token.start)
                break
            values[token.start] = value
    if lexical_error is not None:
        diagnostics.error(
            lexical_error.code,
            lexical_error.message,
            Span(source, lexical_error.start, lexical_error.end),
            hint=lexical_error.hint,
        )
        return _broken(line, span), line.next
    first = line.tokens[0]
    if first.text not in (*KEYWORDS, *BESIDE, "@"):
        _unknown_statement(source, first, diagnostics)
        return _broken(line, span), line.next
    from lark.exceptions import UnexpectedToken

    try:
        node = _parsed(source, line.tokens, values)
    except UnexpectedToken as error:
        cut = _misspelt(source.text, line, error)
        if cut is not None:
            # The statement ends at a comma or arrow, before a misspelt first word, whose line gets its own error.
            line = LogicalLine(line.tokens[:cut], source.text.rindex("\n", 0, line.tokens[cut].start) + 1, None)
            diagnostics.error(
                "ADM001",
                f"the statement ends too early, after `{line.tokens[-1].text}`",
                Span(source, line.tokens[-1].end, line.tokens[-1].end),
                hint=_incomplete(source.text, line),
            )
            return _broken(line, line.span(source)), line.next
        return _broken(line, span), _unexpected(source, line, error, diagnostics)
    start = span.start
    if first.text == "@" and isinstance(node, tree.Kind | tree.Policy):
        # The statement itself begins at its keyword, which is the token before its name.
        start = max(token.start for token in line.tokens if token.start < node.name.span.start)
    return node._replace(span=Span(source, start, span.end)), line.next


def _broken(line: LogicalLine, span: Span) -> tree.Broken:
    """The names that a statement which does not parse declares, as far as these are known."""
    tokens = line.tokens
    # Nothing stands before these words, and services may have such a name.
    first_only = ("profile", *STATED)
    keywords = (index for index, token in enumerate(tokens) if token.text in KEYWORDS)
    at = next((index for index in keywords if not index or tokens[index].text not in first_only), 0)
    at = 0 if is_request(tokens) or tokens[0].text in BESIDE else at
    meant = difflib.get_close_matches(tokens[at].text, (*KEYWORDS, *BESIDE), n=1)
    names: list[str] = []
    for token in tokens[at + 1 :]:
        if token.type == "NAME":
            names.append(token.text)
        elif token.text != ",":
            break
    return tree.Broken(meant[0] if meant else "", tuple(names), span)


def _unknown_statement(source: SourceText, first: Token, diagnostics: Diagnostics) -> None:
    rest = first.type != "NAME" or first.text in _INNER
    words = next(((word,) for word, ending in BESIDE.items() if source.path.endswith(ending)), KEYWORDS)
    diagnostics.error(
        "ADM008",
        f"a statement does not start with `{first.text}`",
        Span(source, first.start, first.end),
        cause="a statement starts with one of " + ", ".join(f"`{word}`" for word in words)
        if len(words) > 1
        else f"each statement of this file starts with `{words[0]}`",
        hint=_of_a_policy(first.text)
        or other_meshes.statement(first.text)
        or (_REST if rest else diagnostics.did_you_mean(first.text, words)),
    )


_INNER = ("on", "when", "except", "and", "or", "not", "for", "template", "at", "minimize", "then", "together", "async")
"""Words inside a statement that often begin a line elsewhere."""
_REST = f"if it continues the previous statement: {hints.CONTINUES}"


def _of_a_policy(word: str) -> str | None:
    """The hint for the name of a kind at the beginning of a statement."""
    return f"write `policy NAME = {word}(...) on SOURCES -> DESTINATIONS`" if word in guides() else None


Parsed = tree.Statement | tree.AnnotationLine | tree.Broken


def _parsed(source: SourceText, tokens: list[Token], values: dict[int, str]) -> tree.Statement | tree.AnnotationLine:
    """The node that `Builder` makes of one logical line. Raises lark's `UnexpectedToken`."""
    text: Any = _Tokens(source, tokens, values)  # lark passes any argument of `parse` on to the lexer
    return cast("tree.Statement | tree.AnnotationLine", _lark().parse(text))


class _Tokens:
    """The lexer's input: tokens of one logical line, and the values of its strings by offset."""

    __slots__ = ("source", "tokens", "values")

    def __init__(self, source: SourceText, tokens: list[Token], values: dict[int, str]) -> None:
        self.source = source
        self.tokens = tokens
        self.values = values


@lru_cache(maxsize=1)
def _lark() -> lark.Lark:
    import lark
    from lark.common import LexerConf
    from lark.lexer import Lexer, LexerState, PatternStr

    from dsl.syntax.build import Builder, SpannedToken

    class StatementLexer(Lexer):
        """Passes on the tokens of one statement. A word is a keyword if the parser accepts that keyword here."""

        __future_interface__ = 2

        def __init__(self, conf: LexerConf) -> None:
            self.literals = {
                terminal.pattern.value: terminal.name
                for terminal in conf.terminals
                if isinstance(terminal.pattern, PatternStr)
            }

        def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[lark.Token]:
            given = cast("_Tokens", lexer_state.text)
            source = given.source
            values = given.values
            literals = self.literals
            states = parser_state.parse_conf.states
            stack = parser_state.state_stack
            for index, (type_, text, start, end) in enumerate(given.tokens):
                name = type_
                value = text
                if type_ == "SIGN":
                    name = literals[text]
                elif type_ == "NAME":
                    keyword = literals.get(text)
                    # No keyword stands before `->`: there, `adm` is a service.
                    if keyword is not None and keyword in states[stack[-1]] and not _before_arrow(given.tokens, index):
                        name = keyword
                elif type_ == "STRING":
                    value = values[start]
                token = SpannedToken(name, value)
                token.span = Span(source, start, end)
                yield token

    nowhere = Span(SourceText("", ""), 0, 0)
    return lark.Lark(
        _GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        lexer=StatementLexer,
        transformer=Builder(nowhere),
        maybe_placeholders=True,
    )


def _before_arrow(tokens: list[Token], index: int) -> bool:
    return index + 1 < len(tokens) and tokens[index + 1].text == "->"


_SHOWN = {
    "NAME": "a name",
    "GLOB": "`*`",
    "NUMBER": "a number",
    "STRING": 'a string `"..."`',
    "$END": "the end of the line",
}


def _unexpected(source: SourceText, line: LogicalLine, error: UnexpectedToken, diagnostics: Diagnostics) -> int:
    """Reports an unexpected token; returns the offset at which the next statement begins."""
    literals = {terminal.name: terminal.pattern.value for terminal in _lark().terminals if terminal.pattern is not None}
    at_end = error.token.type == "$END"
    at = len(line.tokens) if at_end else next(i for i, t in enumerate(line.tokens) if t.start == error.token.span.start)
    states = error.state.parse_conf.states[error.state.position]
    signs = hints.following([literals[name] for name in states if name in literals], line.tokens[at - 1].text)
    expected = sorted([f"`{sign}`" for sign in signs] + [_SHOWN[name] for name in states if name in _SHOWN])
    words = sorted(literals[name] for name in error.expected if literals.get(name, "").replace("_", "").isalpha())
    if at_end:
        last = line.tokens[-1]
        span = Span(source, last.end, last.end)
        message = f"the statement ends too early, after `{_short(last.text)}`"
    else:
        span = error.token.span
        message = f"`{_short(span.text)}` is unexpected here"
    beyond = line.next
    if at_end:
        hint = _incomplete(source.text, line)
        following = first_token(source.text, line.next)
        if hint is None and following is not None and (following.type in states or following.text in signs):
            # The remainder of this statement gets no error of its own.
            hint = f"`{_short(following.text)}` is on the next line: {hints.CONTINUES}"
            beyond = next_line(source.text, line.next).next
    else:
        hint = hints.unexpected_token(source.text, line.tokens, at, signs)
    if hint is None and line.tokens[0].text == "call" and is_step(source.text, line.tokens[0].start):
        hint = "a call is written `call SOURCES -> DESTINATIONS`; a step stands in the braces of a `request`"
    close = difflib.get_close_matches(span.text, words, n=1, cutoff=0.6)
    if hint is None and close:
        hint = f"did you mean `{close[0]}`?"
    cause = "expected " + (" or ".join(expected) if len(expected) <= 6 else "one of " + ", ".join(expected))
    diagnostics.error("ADM001", message, span, cause=cause, hint=hint)
    return beyond


def _misspelt(text: str, line: LogicalLine, error: UnexpectedToken) -> int | None:
    """Index of a token that begins a line after a `,` or `->`, and is a misspelt first word of a statement."""
    tokens = line.tokens
    if error.token.type == "$END":
        return None
    at = next(index for index, token in enumerate(tokens) if token.start == error.token.span.start) - 1
    if at < 1 or at + 2 >= len(tokens) or tokens[at - 1].text not in CONTINUATION:
        return None
    depth = sum((token.text in ("(", "[", "{")) - (token.text in (")", "]", "}")) for token in tokens[:at])
    shape = tokens[at].type == tokens[at + 1].type == "NAME" and tokens[at + 2].text in ("{", "=", "->", "(")
    if depth or not shape or "\n" not in text[tokens[at - 1].end : tokens[at].start]:
        return None
    return at if difflib.get_close_matches(tokens[at].text, KEYWORDS, n=1, cutoff=0.8) else None


def _incomplete(text: str, line: LogicalLine) -> str | None:
    """The reason why a statement that ends in `,` or `->` does not continue in the next line; None for all others."""
    last = line.tokens[-1].text
    if last not in CONTINUATION:
        return None
    ends = first_token(text, line.next) is None and not begins(text, line.next)
    why = "the file ends here" if ends else "the next line begins a statement"
    remove = ", or remove the `,`" if last == "," else ""
    return f"after `{last}` a statement continues in the next line, but {why}: complete the statement{remove}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
