"""Builds plain data from the events of a YAML parser, as `kubectl` reads them.

While it is built, an alias counts as the value that it stands for. A key that is there twice is an error: readers
differ in which of the two values they take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from admc.manifests import bounds, scalars
from admc.manifests.bounds import MAX_DEPTH
from admc.manifests.slices import ITEMS, Slice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admc.manifests.bounds import Budget

    Keep = Callable[[Any], Any]

LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final = yaml.SafeLoader("")
"""Knows the tags of scalars without one."""
_MERGE: Final = "tag:yaml.org,2002:merge"
_REMEMBERED: Final = 20_000
"""The most texts whose values are kept: manifests repeat them."""


class WrongError(Exception):
    """A document that is refused. `at` is the place of the value, in characters from the beginning of the text."""

    def __init__(self, message: str, at: int, cause: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.cause = cause


class Read(NamedTuple):
    """The data of one document, and the places of the objects in it where it is a list."""

    data: Any
    start: int
    items: tuple[Slice, ...]


class _Anchored(NamedTuple):
    """A value with an anchor, which aliases stand for."""

    data: Any
    event: Any
    values: int
    characters: int
    height: int


class Builder:
    """Reads the documents of one text. `budget_of_object` returns the budget at the beginning of each object."""

    def __init__(self, text: str, budget_of_object: Callable[[], Budget], keep: Keep) -> None:
        self._loader = LOADER(text)
        self._next = self._loader.get_event
        self._budget_of_object = budget_of_object
        self._budget = budget_of_object()
        self._keep = keep
        self._known: dict[str, scalars.Value] = {}
        self._anchors: dict[str, _Anchored | None] = {}
        self._reach = 0
        """The most collections around a value, since the beginning of the nearest value with an anchor."""

    def documents(self) -> Iterator[Read]:
        """Raises `WrongError` and `yaml.YAMLError`, after the documents before the mistake."""
        while not isinstance(event := self._next(), StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                self._anchors.clear()
                self._budget = self._budget_of_object()
                first = self._next()
                items: list[Slice] = []
                data = self._value(first, 1, items)
                yield Read(data, first.start_mark.index, tuple(items))

    def _value(self, event: Any, depth: int, items: list[Slice] | None = None) -> Any:
        """Build the value that begins with an event. `items` is for the places of a list's objects."""
        kind = type(event)
        if kind is ScalarEvent and event.anchor is None:
            return self._scalar(event)
        if kind is AliasEvent:
            return self._alias(event, depth)
        anchor = event.anchor
        if anchor is not None:
            if anchor in self._anchors:
                raise WrongError(f"the anchor `{anchor[:100]}` is there twice", event.start_mark.index)
            self._anchors[anchor] = None
        values, characters, reach = self._budget.values, self._budget.characters, self._reach
        self._reach = depth
        if kind is ScalarEvent:
            data = self._scalar(event)
            self._reach = depth - 1
        else:
            data = self._collection(event, depth, items)
        if anchor is not None:
            spent = values - self._budget.values, characters - self._budget.characters
            self._anchors[anchor] = _Anchored(data, event, *spent, self._reach - depth + 1)
        self._reach = max(reach, self._reach)
        return data

    def _collection(self, event: Any, depth: int, items: list[Slice] | None) -> Any:
        if depth > MAX_DEPTH:
            raise WrongError(f"a value is nested deeper than {MAX_DEPTH}", event.start_mark.index)
        self._spend(event, 1, 0)
        if type(event) is SequenceStartEvent:
            listed = []
            while type(inner := self._next()) is not SequenceEndEvent:
                listed.append(self._value(inner, depth + 1))
            return listed
        return self._mapping(depth, items)

    def _mapping(self, depth: int, items: list[Slice] | None) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while type(event := self._next()) is not MappingEndEvent:
            key = self._key(event)
            value = self._next()
            if key is None:
                inner = self._value(value, depth + 1)
                for mapping in reversed(inner if isinstance(inner, list) else [inner]):
                    merged.update(mapping if isinstance(mapping, dict) else {})
                continue
            if key in fields:
                cause = "readers differ in which of the two values they take"
                raise WrongError(f"the key `{key[:100]}` is there twice", event.start_mark.index, cause)
            if items is not None and key == ITEMS and type(value) is SequenceStartEvent and value.anchor is None:
                fields[key] = self._objects(items)
            elif type(value) is ScalarEvent and value.anchor is None:
                fields[key] = self._scalar(value)
            else:
                fields[key] = self._value(value, depth + 1)
        return {**merged, **fields} if merged else fields

    def _objects(self, items: list[Slice]) -> list[Any]:
        """Build the objects of a list, each with a budget of its own where objects have one."""
        listed = []
        while type(event := self._next()) is not SequenceEndEvent:
            self._budget = self._budget_of_object()
            listed.append(self._keep(self._value(event, 3)))
            items.append(Slice(event.start_mark.index, self._loader.peek_event().start_mark.index))
        return listed

    def _alias(self, event: Any, depth: int) -> Any:
        anchored = self._anchored(event)
        if depth + anchored.height - 1 > MAX_DEPTH:
            raise WrongError(f"a value is nested deeper than {MAX_DEPTH}", event.start_mark.index)
        self._spend(event, anchored.values, anchored.characters)
        self._reach = max(self._reach, depth + anchored.height - 1)
        return anchored.data

    def _anchored(self, event: Any) -> _Anchored:
        if event.anchor not in self._anchors:
            raise WrongError(f"no anchor `{event.anchor[:100]}` is before this alias", event.start_mark.index)
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise WrongError("an alias stands for what it is in", event.start_mark.index)
        return anchored

    def _key(self, event: Any) -> str | None:
        """The text of a key; None for a merge."""
        at = event.start_mark.index
        scalar = self._anchored(event).event if type(event) is AliasEvent else event
        if type(scalar) is not ScalarEvent:
            raise WrongError("a key is not a text", at)
        text: str = scalar.value
        self._spend(event, 1, len(text))
        if scalar.anchor is not None and scalar is event:
            if scalar.anchor in self._anchors:
                raise WrongError(f"the anchor `{scalar.anchor[:100]}` is there twice", at)
            self._anchors[scalar.anchor] = _Anchored(self._scalar(event), event, 1, len(text), 0)
        if scalar.tag == _MERGE or (text == "<<" and scalar.tag is None and not scalar.style):
            return None
        name = scalars.key(text) if not scalar.style and self._is_untagged(scalar) else text
        if name is None:
            raise WrongError("a key is not a text", at)
        return name

    def _scalar(self, event: Any) -> scalars.Value:
        text: str = event.value
        self._spend(event, 1, len(text))
        if event.tag is None:
            if event.style:
                return text
            try:
                return self._known[text]
            except KeyError:
                value = scalars.plain(text)
                if len(self._known) < _REMEMBERED:
                    self._known[text] = value
                return value
        return self._tagged(event)

    def _tagged(self, event: Any) -> scalars.Value:
        if self._is_untagged(event):
            return str(event.value) if event.style else scalars.plain(event.value)
        node = yaml.ScalarNode(self._tag(event), event.value, event.start_mark, event.end_mark, event.style)
        try:
            # Each has a constructor of its own, since one keeps all nodes that it has seen.
            scalar = yaml.SafeLoader("").construct_object(node)
        except (ValueError, yaml.YAMLError):
            scalar = None  # such as an impossible date
        if not isinstance(scalar, str | int | float):
            raise WrongError("a value has a tag that JSON has no type for", event.start_mark.index)
        return scalar

    def _is_untagged(self, event: Any) -> bool:
        """Whether it has no tag, or the one that it would have without."""
        if event.tag is None:
            return True
        return self._tag(event) == self._resolved(event.value, (False, True) if event.style else (True, False))

    def _tag(self, event: Any) -> str:
        return self._resolved(event.value, event.implicit) if event.tag == "!" else str(event.tag)

    def _resolved(self, text: str, implicit: tuple[bool, bool]) -> str:
        return str(_RESOLVER.resolve(yaml.ScalarNode, text, implicit))  # type: ignore[no-untyped-call]

    def _spend(self, event: Any, values: int, characters: int) -> None:
        budget = self._budget
        budget.values -= values
        budget.characters -= characters
        if budget.values < 0 or budget.characters < 0:
            raise too_large(event.start_mark.index)


def too_large(at: int) -> WrongError:
    cause = f"with aliases written out, it has more than {bounds.MAX_VALUES:,} values or {bounds.MAX_TEXT:,} characters"
    return WrongError("the manifests are too large", at, cause)
