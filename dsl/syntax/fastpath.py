"""Reads the simplest statements without the parser, since large applications have hundreds of thousands of them.

There are two forms: a one-line `service` with one port, and a one-line `call` with one source and one destination. The
LALR parser reads all other lines. A property test checks that both build the same nodes.
"""

from __future__ import annotations

import re
from sys import intern
from typing import TYPE_CHECKING

from dsl.syntax.tokens import MAX_WORD, NAME
from dsl.syntax.tree import Attribute, Call, Number, PortItem, Reference, Service, Word
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl.syntax.tree import Broken, Statement

_END = r"[ \t]*(?://[^\n]*|\r)?(?:\n|\Z)"
_QUANTITY = r"[0-9]+(?:\.[0-9]+)?[A-Za-z]*(?:/[a-z]+)?(?![A-Za-z0-9_%µ/.])"
_SERVICE = re.compile(
    rf"[ \t]*(service)[ \t]+({NAME})[ \t]*\{{[ \t]*(tcp|http|grpc)[ \t]+([0-9]+)"
    rf"(?:[ \t]+(replicas)[ \t]+([0-9]+))?[ \t]*(\}}){_END}"
)
_CALL = re.compile(
    rf"[ \t]*(call)[ \t]+({NAME})[ \t]*->[ \t]*({NAME})"
    rf"(?:[ \t]*\{{(?:[ \t]*(rate)[ \t]+({_QUANTITY}))?(?:[ \t]*(size)[ \t]+({_QUANTITY}))?[ \t]*(\}}))?{_END}"
)


def read(source: SourceText, position: int, statements: list[Statement | Broken]) -> int:
    """Appends the simple statements from `position` on; returns the offset of the first other line.

    `position` has to be the start of a line.
    """
    text = source.text
    service = _SERVICE.match
    call = _CALL.match
    append = statements.append
    while True:
        line = call(text, position)
        build: Callable[[SourceText, re.Match[str]], Call | Service] = _call
        if line is None:
            line = service(text, position)
            build = _service
        # On a line of this length, no name and no number is too long.
        if line is None or line.end() - position > MAX_WORD:
            return position
        append(build(source, line))
        position = line.end()
        if position >= len(text):
            return position


def _service(source: SourceText, line: re.Match[str]) -> Service:
    span = line.span
    name, protocol, number, replicas = line.group(2, 3, 4, 6)
    start = span(3)[0]
    at, end = span(4)
    port = PortItem(
        Word(intern(protocol), Span(source, start, span(3)[1])),
        None,
        Number(intern(number), Span(source, at, end)),
        None,
        Span(source, start, end),
    )
    names = (Word(intern(name), Span(source, *span(2))),)
    whole = Span(source, span(1)[0], span(7)[1])
    if replicas is None:
        return Service(names, (port,), whole)
    return Service(names, (port, _attribute(source, line, 5)), whole)


def _attribute(source: SourceText, line: re.Match[str], group: int) -> Attribute:
    start, end = line.span(group + 1)
    return Attribute(
        intern(line[group]),
        Number(intern(line[group + 1]), Span(source, start, end)),
        Span(source, line.start(group), end),
    )


def _call(source: SourceText, line: re.Match[str]) -> Call:
    span = line.span
    destination = Span(source, *span(3))
    items: tuple[Attribute, ...] = ()
    if line[4] is not None:
        items = (_attribute(source, line, 4),)
    if line[6] is not None:
        items = (*items, _attribute(source, line, 6))
    end = destination.end if line[8] is None else line.end(8)
    return Call(
        (Word(intern(line[2]), Span(source, *span(2))),),
        (Reference(Word(intern(line[3]), destination), None, destination),),
        items,
        Span(source, span(1)[0], end),
    )
