"""Writes changed values into the text of a document, and leaves all other text as it is: comments, order, quotes.

PyYAML forgets comments when it reads. So this module finds the places of changed keys and items by the marks of the
nodes, and edits only these. It edits block style, as manifests have it. A value in another form (flow style, an alias,
a merge) is written anew at the nearest key around it. The edited text is read again and compared. If it differs, the
whole document is written anew, without its comments.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from admc.base.exits import CommandError
from admc.manifests.read import read
from admc.manifests.yaml_values import LOADER
from emitters.yaml_writer import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from admc.manifests.documents import Document


MAX_COMPARED: Final = 2_000
"""The most items of two lists that are compared. The comparison takes up to the square of that."""


class Edit(NamedTuple):
    """Characters `[start, end)` of the file become `text`."""

    start: int
    end: int
    text: str


class Patch(NamedTuple):
    edits: tuple[Edit, ...]
    loses_comments: bool
    """A part of the document was written anew, or all of it, and comments in it are gone."""


class _UnknownError(Exception):
    """The text is in a form that is not edited in place."""


def patch(document: Document, new: Any) -> Patch:
    """Return the edits that give a document other data."""
    if document.data == new:
        return Patch((), loses_comments=False)
    # Marks count from the beginning of the document: a file may have thousands of them.
    text, node = document.text, document.node
    first = node.start_mark.index
    begin = text.rfind("\n", 0, first) + 1
    if text[begin:first].strip(" "):  # behind `---`
        begin = first
    own = text[begin : node.end_mark.index].rstrip()
    offset = document.start + begin
    try:
        edits = tuple(_Editor(own, begin).edits(node, document.data, new))
        made = applied(own, edits)
        if _reads_as(made, new):
            moved = tuple(Edit(start + offset, end + offset, text) for start, end, text in edits)
            return Patch(moved, loses_comments=_comments(made) < _comments(own))
    except _UnknownError:
        pass
    anew = _anew(own[first - begin :], node, new, follows=begin == first)
    whole = Edit(document.start + first, offset + len(own), anew)
    return Patch((whole,), loses_comments=_comments(own) > 0)


def _comments(text: str) -> int:
    tokens = yaml.scan(text, Loader=LOADER)
    texts = [(token.start_mark.index, token.end_mark.index) for token in tokens if isinstance(token, yaml.ScalarToken)]
    starts = [start for start, _ in texts]

    def is_inside(at: int) -> bool:
        before = bisect(starts, at) - 1
        return before >= 0 and at < texts[before][1]

    return sum(not is_inside(hash_sign.start()) for hash_sign in re.finditer(r"(?<!\S)#", text))


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with its edits, of which no two overlap."""
    parts, at = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[at:start], new]
        at = end
    return "".join((*parts, text[at:]))


def _reads_as(text: str, data: Any) -> bool:
    try:
        documents = read("", text.encode())
    except CommandError:
        return False
    return len(documents) == 1 and documents[0].data == data


def _anew(own: str, node: yaml.Node, new: Any, *, follows: bool) -> str:
    """Return the text of a whole document. With `follows`, it begins behind `---`, on the same line."""
    if getattr(node, "flow_style", False) and own.startswith("{"):
        indent = re.match(r"\{\r?\n( +)", own)
        return json.dumps(new, indent=None if indent is None else len(indent[1]), ensure_ascii=False)
    return ("\n" if follows and node.start_mark.column else "") + dump(new).rstrip("\n")


class _Editor:
    """Edits the text of one document. `base` is the place of its first line, and marks count from where its text
    begins."""

    def __init__(self, text: str, base: int) -> None:
        self._text = text
        self._base = base
        self._break = "\r\n" if "\r\n" in text else "\n"

    def edits(self, node: yaml.Node, old: Any, new: Any) -> Iterator[Edit]:
        """Yield the edits that give a node other data. Raises `_UnknownError`."""
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
                    yield Edit(self._start(key), self._end(value, key), written)
        added = {name: value for name, value in new.items() if name not in old}
        if added:
            # After the last key that stays, since the whole text of a removed key is deleted.
            stays = max(index for index, name in enumerate(keys) if name in new)
            key, value = node.value[stays]
            end = self._line_end(self._end(value, key))
            yield Edit(end, end, self._break + indent + self._indented(dump(added), indent))

    def _without(self, node: yaml.MappingNode, index: int) -> Edit:
        key, value = node.value[index]
        start = self._start(key)
        if not self._is_first(start):  # after `- `
            if index + 1 == len(node.value):
                raise _UnknownError
            return Edit(start, self._start(node.value[index + 1][0]), "")
        return self._lines(start, self._end(value, key))

    def _sequence(self, node: yaml.SequenceNode, old: list[Any], new: list[Any]) -> Iterator[Edit]:
        if len(old) == len(new) and not _named(old):
            for item, one, other in zip(node.value, old, new, strict=True):
                yield from self._item(node, item, one, other)
            return
        if max(len(old), len(new)) > MAX_COMPARED:
            raise _UnknownError
        indent = " " * node.start_mark.column
        match = SequenceMatcher(None, _names(old), _names(new), autojunk=False)
        for way, first, last, begin, end in match.get_opcodes():
            if way == "equal":
                for offset in range(last - first):
                    yield from self._item(node, node.value[first + offset], old[first + offset], new[begin + offset])
                continue
            if begin < end:
                written = self._indented(dump(new[begin:end]), indent)
                if first < len(old):
                    yield self._before(self._dash(node, first), written, indent)
                else:
                    at = self._line_end(self._end(node.value[-1], node))
                    yield Edit(at, at, self._break + indent + written)
            if first < last:
                dash = self._dash(node, first)
                if not self._is_first(dash):
                    raise _UnknownError
                yield self._lines(dash, self._end(node.value[last - 1], node))

    def _item(self, node: yaml.SequenceNode, item: yaml.Node, old: Any, new: Any) -> list[Edit]:
        """Return the edits of an item that stays: of its own text, or all of it anew."""
        try:
            return list(self.edits(item, old, new))
        except _UnknownError:
            written = self._indented(dump(new), " " * item.start_mark.column)
            return [Edit(self._start(item), self._end(item, node), written)]

    def _before(self, dash: int, written: str, indent: str) -> Edit:
        """Insert items before another one, and before the comments above that one."""
        if not self._is_first(dash):
            return Edit(dash, dash, written + self._break + indent)
        at = self._line(dash)
        while at and self._text[self._line(at - 1) : at].lstrip().startswith("#"):
            at = self._line(at - 1)
        return Edit(at, at, indent + written + self._break)

    def _dash(self, node: yaml.SequenceNode, index: int) -> int:
        """Return the place of the `-` before an item."""
        dash = self._text.rfind("-", 0, max(self._start(node.value[index]), 0))
        if dash < 0 or dash - self._line(dash) != node.start_mark.column:
            raise _UnknownError
        return dash

    def _start(self, node: yaml.Node) -> int:
        start: int = node.start_mark.index - self._base
        return start

    def _end(self, node: yaml.Node, before: yaml.Node) -> int:
        """Return the end of a node's text: the mark of a collection in block style is behind the comments that follow.

        Raises `_UnknownError` if the last value is an alias: its node is the one that it stands for, elsewhere.
        """
        while True:
            if self._start(node) < self._start(before):
                raise _UnknownError
            if getattr(node, "flow_style", None) is not False or not node.value:
                break
            last, before = node.value[-1], node
            node = last[1] if isinstance(last, tuple) else last
        end = min(node.end_mark.index - self._base, len(self._text))
        while end and self._text[end - 1].isspace():
            end -= 1
        return end

    def _line(self, index: int) -> int:
        """Return where the line of a place begins."""
        return self._text.rfind("\n", 0, index) + 1

    def _is_first(self, index: int) -> bool:
        """Whether only spaces stand before a place on its line."""
        return not self._text[self._line(index) : index].strip(" ")

    def _line_end(self, index: int) -> int:
        """Return the end of the line of a place, before its line break."""
        line_break = self._text.find("\n", index)
        end = len(self._text) if line_break < 0 else line_break
        return end - 1 if self._text[index:end].endswith("\r") else end

    def _lines(self, start: int, end: int) -> Edit:
        """Remove whole lines."""
        line_break = self._text.find("\n", self._line_end(end))
        return Edit(self._line(start), len(self._text) if line_break < 0 else line_break + 1, "")

    def _indented(self, text: str, indent: str) -> str:
        return text.rstrip("\n").replace("\n", self._break + indent)


def _named(items: list[Any]) -> bool:
    return not all(isinstance(it, dict) and "name" not in it for it in items)


def _names(items: list[Any]) -> list[str]:
    """Return a text that identifies each item of a list: the name of a container or volume, else the whole item."""
    return [str(it["name"]) if isinstance(it, dict) and "name" in it else json.dumps(it, default=str) for it in items]
