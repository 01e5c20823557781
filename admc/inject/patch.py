"""Writes changed values into the text of a document, and leaves all other text as it is: comments, order, quotes.

PyYAML forgets comments when it reads. So this looks for the places of changed keys and items in the text, by the marks
of the nodes, and edits only these. It knows block style, as manifests have it. What it does not know (a value in flow
style, an alias, a merge) is written anew at the nearest key around it. The result is read again and compared; a
document for which that fails is written anew as a whole, without its comments.
"""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from admc.exits import CommandError
from admc.inject.manifests import read
from emitters.yaml_writer import dump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.inject.manifests import Document


class Edit(NamedTuple):
    """Characters `[start, end)` of the file become `text`."""

    start: int
    end: int
    text: str


class Patch(NamedTuple):
    edits: tuple[Edit, ...]
    whole: bool
    """The document was written anew, and has lost its comments."""


class _UnknownError(Exception):
    """The text is in a form that is not edited in place."""


def patch(document: Document, new: Any) -> Patch:
    """The edits that give a document other data."""
    text, node = document.source.text, document.node
    if document.data == new:
        return Patch((), whole=False)
    first = node.start_mark.index
    start, end = _line(text, first) if _is_first(text, first) else first, len(text[: node.end_mark.index].rstrip())
    try:
        edits = tuple(_Editor(text).edits(node, document.data, new))
        inner = [edit._replace(start=edit.start - start, end=edit.end - start) for edit in edits]
        if all(edit.start >= 0 for edit in inner) and _reads_as(applied(text[start:end], inner), new):
            return Patch(edits, whole=False)
    except _UnknownError:
        pass
    return Patch((Edit(first, end, _anew(text, node, new)),), whole=_has_comment(text[start:end]))


def applied(text: str, edits: list[Edit]) -> str:
    """A text with its edits, of which no two overlap."""
    parts, at = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[at:start], new]
        at = end
    return "".join((*parts, text[at:]))


def _reads_as(text: str, data: Any) -> bool:
    try:
        found = read("", text.encode())
    except CommandError:
        return False
    return len(found) == 1 and found[0].data == data


def _anew(text: str, node: yaml.Node, new: Any) -> str:
    if getattr(node, "flow_style", False) and text[node.start_mark.index] == "{":
        indent = re.match(r"\{\r?\n( +)", text[node.start_mark.index :])
        return json.dumps(new, indent=None if indent is None else len(indent[1]), ensure_ascii=False)
    # After `---` a mapping in block style begins on a line of its own.
    return ("" if _is_first(text, node.start_mark.index) else "\n") + dump(new).rstrip("\n")


def _has_comment(text: str) -> bool:
    return re.search(r"(?:^|\s)#", text) is not None


def _line(text: str, index: int) -> int:
    """Where the line of an index begins."""
    return text.rfind("\n", 0, index) + 1


def _is_first(text: str, index: int) -> bool:
    """Whether there is nothing but spaces before it on its line."""
    return not text[_line(text, index) : index].strip(" ")


def _line_end(text: str, index: int) -> int:
    """The end of the line of an index, before its line break."""
    found = text.find("\n", index)
    end = len(text) if found < 0 else found
    return end - 1 if text[index:end].endswith("\r") else end


def _end(text: str, node: yaml.Node) -> int:
    """The end of the text of a node: the mark of a collection in block style is behind the comments that follow.

    Raises `_UnknownError` where the last value is an alias: its node is the one that it stands for, elsewhere.
    """
    while getattr(node, "flow_style", None) is False and node.value:
        last, before = node.value[-1], node
        node = last[1] if isinstance(last, tuple) else last
        if node.start_mark.index < before.start_mark.index:
            raise _UnknownError
    end: int = node.end_mark.index
    return len(text[:end].rstrip())


class _Editor:
    def __init__(self, text: str) -> None:
        self._text = text
        self._break = "\r\n" if "\r\n" in text else "\n"

    def edits(self, node: yaml.Node, old: Any, new: Any) -> Iterator[Edit]:
        """The edits that give a node other data. Raises `_UnknownError`."""
        if old == new:
            return
        if getattr(node, "flow_style", True):
            raise _UnknownError
        if isinstance(node, yaml.MappingNode) and isinstance(new, dict):
            yield from self._mapping(node, old, new)
        elif isinstance(node, yaml.SequenceNode) and isinstance(new, list) and new:
            yield from self._sequence(node, old, new)
        else:
            raise _UnknownError

    def _mapping(self, node: yaml.MappingNode, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Edit]:
        keys = [key.value for key, _ in node.value]
        if set(keys) != old.keys() or not any(key in new for key in keys):
            raise _UnknownError  # a merge, or nothing would be left
        indent = " " * node.start_mark.column
        for index, (key, value) in enumerate(node.value):
            name = key.value
            if name not in new:
                yield self._without(node, index)
            elif old[name] != new[name]:
                try:
                    yield from list(self.edits(value, old[name], new[name]))
                except _UnknownError:
                    written = self._indented(dump({name: new[name]}), indent)
                    yield Edit(key.start_mark.index, _end(self._text, _last(key, value)), written)
        added = {name: value for name, value in new.items() if name not in old}
        if added:
            # After the last key that stays: the text of one that goes is removed as a whole.
            stays = max(index for index, name in enumerate(keys) if name in new)
            end = _line_end(self._text, _end(self._text, _last(*node.value[stays])))
            yield Edit(end, end, self._break + indent + self._indented(dump(added), indent))

    def _without(self, node: yaml.MappingNode, index: int) -> Edit:
        key, value = node.value[index]
        start = key.start_mark.index
        if not _is_first(self._text, start):  # after `- `
            if index + 1 == len(node.value):
                raise _UnknownError
            return Edit(start, node.value[index + 1][0].start_mark.index, "")
        return self._lines(start, _end(self._text, _last(key, value)))

    def _lines(self, start: int, end: int) -> Edit:
        """Remove whole lines."""
        start, end = _line(self._text, start), _line_end(self._text, end)
        found = self._text.find("\n", end)
        return Edit(start, len(self._text) if found < 0 else found + 1, "")

    def _sequence(self, node: yaml.SequenceNode, old: list[Any], new: list[Any]) -> Iterator[Edit]:
        indent = " " * node.start_mark.column
        match = SequenceMatcher(None, _names(old), _names(new), autojunk=False)
        for way, first, last, begin, end in match.get_opcodes():
            if way == "equal":
                for offset in range(last - first):
                    yield from self.edits(node.value[first + offset], old[first + offset], new[begin + offset])
                continue
            if begin < end:
                written = self._indented(dump(new[begin:end]), indent)
                if first < len(old):
                    yield self._before(self._dash(node, first), written, indent)
                else:
                    at = _line_end(self._text, _end(self._text, node.value[-1]))
                    yield Edit(at, at, self._break + indent + written)
            if first < last:
                dash = self._dash(node, first)
                if not _is_first(self._text, dash):
                    raise _UnknownError
                yield self._lines(dash, _end(self._text, node.value[last - 1]))

    def _before(self, dash: int, written: str, indent: str) -> Edit:
        """Items before another one, and before the comments above it."""
        at = _line(self._text, dash)
        if not _is_first(self._text, dash):
            return Edit(dash, dash, written + self._break + indent)
        while self._text[: max(at - 1, 0)].rpartition("\n")[2].lstrip().startswith("#"):
            at = self._text.rfind("\n", 0, at - 1) + 1
        return Edit(at, at, indent + written + self._break)

    def _dash(self, node: yaml.SequenceNode, index: int) -> int:
        """The place of the `-` before an item."""
        found = self._text.rfind("-", 0, node.value[index].start_mark.index)
        if found < 0 or found - (self._text.rfind("\n", 0, found) + 1) != node.start_mark.column:
            raise _UnknownError
        return found

    def _indented(self, text: str, indent: str) -> str:
        return text.rstrip("\n").replace("\n", self._break + indent)


def _names(items: list[Any]) -> list[str]:
    """By what an item of a list is recognised: containers and volumes by their names."""
    return [str(it["name"]) if isinstance(it, dict) and "name" in it else json.dumps(it, default=str) for it in items]


def _last(key: yaml.Node, value: yaml.Node) -> yaml.Node:
    """The node that ends last: an alias stands elsewhere, and its text is not found by its node."""
    if value.start_mark.index < key.start_mark.index:
        raise _UnknownError
    return value
