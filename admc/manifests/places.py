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
    from collections.abc import Iterator

    from admc.manifests.documents import Document, Where


class _Place(NamedTuple):
    start: int
    end: int


def span_of(document: Document, where: Where) -> Span:
    """The place of a field: of its key in a mapping; of the nearest value around it if the text does not have it, as
    behind an alias or a merge."""
    part, left = Slice(document.start, document.end), where
    if document.items and len(where) > 1 and where[0] == ITEMS and isinstance(where[1], int):
        part, left = document.items[where[1]], where[2:]
    text = document.source.text
    # The lines of an object in a list are indented as its first one is.
    indent = part.start - (text.rfind("\n", 0, part.start) + 1) if left is not where else 0
    events = _events(" " * indent + text[part.start : part.end], document.index if left is where else 0)
    place = _find(events, left)
    offset = part.start - indent
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
