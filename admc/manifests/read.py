"""Reads a file of manifests, document by document. A document that cannot be read leaves the others readable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from admc.base.exits import CommandError, Exit
from admc.manifests import bounds
from admc.manifests.bounds import Budget
from admc.manifests.documents import Document, shown_source
from admc.manifests.json_values import read_json
from admc.manifests.slices import Slice
from admc.manifests.yaml_values import Builder, WrongError
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admc.manifests.yaml_values import Keep, Read

MAX_FILE: Final = 32_000_000
"""Bytes of a file that is read as a whole."""
_SEPARATOR: Final = re.compile(r"^(?:(?=---(?:\s|\Z))|\.\.\.[ \t]*(?:\r?\n|\Z))", re.MULTILINE)
_QUOTES: Final = "readers of YAML differ about a `:` at the end of a text in brackets, as in IPv6: write it in quotes"
_CONTENT: Final = re.compile(r"^[ \t]*+[^ \t\r\n#%]", re.MULTILINE)
_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)


def source_of(path: str, content: bytes) -> SourceText:
    """The text of a file. Raises `CommandError`."""
    try:
        return SourceText(path, content.decode("utf-8"))
    except UnicodeDecodeError as error:
        cause = f"byte {error.start} is none of it"
        raise CommandError(Exit.INPUT, [_unreadable(f"`{path}` is not UTF-8 text", None, cause)]) from error


def read(path: str, content: bytes) -> tuple[Document, ...]:
    """All documents of a file, which share one budget. Raises `CommandError` for the first that cannot be read."""
    budget = Budget()
    documents = []
    for document in documents_of(source_of(path, content), lambda: budget):
        if isinstance(document, Diagnostic):
            raise CommandError(Exit.INPUT, [document])
        documents.append(document)
    return tuple(documents)


def documents_of(
    source: SourceText, budget_of_object: Callable[[], Budget] = Budget, keep: Keep = lambda data: data
) -> Iterator[Document | Diagnostic]:
    """Yield the documents of a text, and what is wrong with those that cannot be read.

    `budget_of_object` gives the bounds of an object, by default its own. `keep` is called with each object of a list
    as soon as it is read, and returns what is kept of it, so that a long list does not have to fit into memory.
    """
    json = read_json(source.text, budget_of_object, keep)
    if json is not None:
        for number, member in enumerate(json, 1):
            end = _end(source, json, number)
            yield Document(source, member.start, end, member.data, member.items, number)
        return
    number = 1
    for part in _parts(source.text):
        if number > bounds.MAX_DOCUMENTS:
            message = f"`{source.path}` has more than {bounds.MAX_DOCUMENTS:,} documents"
            yield _unreadable(message, _span(source, part, 0))
            return
        for index, outcome in enumerate(_read(source, part, budget_of_object, keep)):
            if isinstance(outcome, Diagnostic):
                yield outcome
            else:
                items = tuple(Slice(start + part.start, end + part.start) for start, end in outcome.items)
                yield Document(source, part.start, part.end, outcome.data, items, number, index)
            number += 1


def _end(source: SourceText, documents: list[Read], number: int) -> int:
    return documents[number].start if number < len(documents) else len(source.text)


def _parts(text: str) -> Iterator[Slice]:
    """The documents by their separators, which no value can contain: each is read by a parser of its own."""
    start = 0
    for separator in _SEPARATOR.finditer(text):
        end = separator.end()
        if end > start and not _has_directives_only(text, start, end):
            yield Slice(start, end)
            start = end
    if start < len(text):
        yield Slice(start, len(text))


def _has_directives_only(text: str, start: int, end: int) -> bool:
    """Whether the text before a separator belongs to the document after it."""
    return _CONTENT.search(text, start, end) is None and _DIRECTIVE.search(text, start, end) is not None


def _read(
    source: SourceText, part: Slice, budget_of_object: Callable[[], Budget], keep: Keep
) -> Iterator[Read | Diagnostic]:
    try:
        yield from Builder(source.text[part.start : part.end], budget_of_object, keep).documents()
    except WrongError as error:
        yield _unreadable(error.message, _span(source, part, error.at), error.cause)
    except yaml.YAMLError as error:
        at = _place(source, part, error)
        # A reader's error has its place in bytes or none, and no mark.
        cause = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
        hint = _QUOTES if "unexpected ':'" in cause else None
        form = "JSON" if source.path.endswith(".json") else "YAML"
        yield _unreadable(f"`{source.path}` is not {form}", _span(source, part, at), cause, hint)


def _place(source: SourceText, part: Slice, error: yaml.YAMLError) -> int:
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return int(mark.index)
    before = getattr(error, "position", None) or 0
    return len(source.text[part.start : part.end].encode()[:before].decode("utf-8", "ignore"))


def _span(source: SourceText, part: Slice, at: int) -> Span:
    start = min(part.start + at, len(source.text))
    return Span(shown_source(source, part), start, min(start + 1, len(source.text)))


def _unreadable(message: str, span: Span | None, cause: str | None = None, hint: str | None = None) -> Diagnostic:
    return Diagnostic("ADM927", Severity.ERROR, message, span, cause, hint)
