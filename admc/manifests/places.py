"""Finds the line of a field. The text of its object is read again, which is done only for a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from admc.manifests.documents import shown_source
from admc.manifests.slices import ITEMS, Slice
from admc.manifests.yaml_values import LOADER
from dsl.text import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from admc.manifests.documents import Document, Where


class _Place(NamedTuple):
    start: int
    end: int


def span_of(document: Document, where: Where) -> Span:
    """The place of a field: of its key in a mapping; of the nearest value around it if the text does not have it, as
    behind an alias or a merge."""
    part, left = _part(document, where)
    text, offset = _text(document, part, is_item=left is not where)
    place = _find(_events(text, document.index if left is where else 0), left)
    return _span(document, part, place, offset)


def spans_of(document: Document, around: Where, places: Iterable[Where]) -> list[Span]:
    """The places of several fields of the object that is at `around`, whose text is read once."""
    part, left = _part(document, around)
    text, offset = _text(document, part, is_item=left is not around)
    events = tuple(_events(text, document.index if left is around else 0))
    return [_span(document, part, _find(iter(events), (*left, *where)), offset) for where in places]


def line_within(span: Span, lines: Sequence[str], line: int) -> Span:
    """The place of one of the lines of a text whose place is `span`; that itself if the text is not written as it is.
    Lines count from 1."""
    source, number = span.source, span.line + line
    wanted = lines[line - 1 : line]
    if number > len(source.line_starts) or [source.line(number).strip()] != [one.strip() for one in wanted]:
        return span
    start = source.line_starts[number - 1]
    shown = source.line(number)
    return Span(source, start + len(shown) - len(shown.lstrip()), start + len(shown))


def _part(document: Document, where: Where) -> tuple[Slice, Where]:
    """The slice of the object that has a field, and the rest of the way to it."""
    if document.items and len(where) > 1 and where[0] == ITEMS and isinstance(where[1], int):
        return document.items[where[1]], where[2:]
    return Slice(document.start, document.end), where


def _text(document: Document, part: Slice, *, is_item: bool) -> tuple[str, int]:
    """The text of an object, and where it begins in that of the file."""
    text = document.source.text
    # The lines of an object in a list are indented as its first one is. In braces indentation means nothing, and a list
    # in one line has all other objects before one: as many blanks for each would make the square of its size.
    is_indented = is_item and not text.startswith("{", part.start)
    indent = part.start - (text.rfind("\n", 0, part.start) + 1) if is_indented else 0
    return " " * indent + text[part.start : part.end], part.start - indent


def _span(document: Document, part: Slice, place: _Place, offset: int) -> Span:
    text = document.source.text
    start = min(place.start + offset, len(text))
    line_end = text.find("\n", start)
    end = min(place.end + offset, line_end if line_end >= 0 else len(text))
    return Span(shown_source(document.source, part), start, max(end, start))


def _events(text: str, index: int) -> Iterator[NodeEvent | CollectionEndEvent]:
    """The events of one document. They end where the text cannot be read: it may lack what is around it."""
    skipped = -1
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                skipped += 1
            elif skipped == index and isinstance(event, NodeEvent | CollectionEndEvent):
                yield event
    except yaml.YAMLError:
        return


def _find(events: Iterator[Any], where: Where) -> _Place:
    first = next(events, None)
    if first is None:
        return _Place(0, 0)
    event: Any = first
    place = _place(event)
    for part in where:
        child = _child(events, event, part)
        if child is None:
            break
        event, place = child
    return place


def _child(events: Iterator[Any], event: Any, part: str | int) -> tuple[Any, _Place] | None:
    """The event of the value at one part of a path, and the place that an excerpt shows for it."""
    if isinstance(event, MappingStartEvent):
        return _member(events, part)
    if not isinstance(event, SequenceStartEvent):
        return None
    for index, inner in enumerate(events):
        if isinstance(inner, CollectionEndEvent):
            return None
        if index == part:
            return inner, _place(inner)
        _skip(events, inner)
    return None


def _member(events: Iterator[Any], part: str | int) -> tuple[Any, _Place] | None:
    for key in events:
        if isinstance(key, CollectionEndEvent):
            return None
        _skip(events, key)
        value = next(events, None)
        if value is not None and isinstance(key, ScalarEvent) and key.value == part:
            return value, _place(key)
        _skip(events, value)
    return None


def _place(event: Any) -> _Place:
    return _Place(event.start_mark.index, event.end_mark.index)


def _skip(events: Iterator[Any], event: Any) -> None:
    """Pass over the rest of a value whose first event was read."""
    depth = int(isinstance(event, CollectionStartEvent))
    while depth:
        event = next(events, None)
        if event is None:
            return
        depth += isinstance(event, CollectionStartEvent)
        depth -= isinstance(event, CollectionEndEvent)
