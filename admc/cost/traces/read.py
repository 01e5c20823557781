"""Reads files of traces, and evaluates their trees part by part. The content of a file decides its format.

files -> Table (Alibaba), Spans (OpenTelemetry, Jaeger) -> Linked -> [evaluated] -> a result for each part
"""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from admc.base.exits import wrong_usage
from admc.cost.traces import jaeger, otlp
from admc.cost.traces.alibaba import csv_batches, parquet_batches
from admc.cost.traces.calls import Ids, Result, link
from admc.cost.traces.directory import Directory
from admc.cost.traces.drops import Drops, Note, Reason
from admc.cost.traces.failures import TooMuchError, unreadable
from admc.cost.traces.forest import Linked
from admc.cost.traces.json_input import documents
from admc.cost.traces.names import TraceNames
from admc.cost.traces.rows import Rows, Table, too_large
from admc.cost.traces.spans import Span, Spans, parts

S = TypeVar("S")
T = TypeVar("T")
PARQUET: Final = b"PAR1"
_UNREADABLE: Final = (
    (b"\x1f\x8b", "it is compressed by gzip", "unpack it: `gunzip FILE`"),
    (b"PK\x03\x04", "it is a zip archive", "unpack it: `unzip FILE`"),
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd", "unpack it: `unzstd FILE`"),
    (BOM_UTF16_LE, "its text is UTF-16", "write it as UTF-8"),
    (BOM_UTF16_BE, "its text is UTF-16", "write it as UTF-8"),
)
"""First bytes of common formats that are not read, with the cause and the hint of the message."""
WORKERS: Final = 2
"""Parts that are worked on at the same time; each needs some 300 MB."""
_READERS: Final[dict[str, Callable[[Any], Iterator[Span]]]] = {otlp.KEY: otlp.spans, jaeger.KEY: jaeger.spans}


def evaluated(
    paths: Sequence[Path],
    directory: Directory,
    drops: Drops,
    work: Callable[[Linked], T],
    *,
    partial_traces: bool = False,
) -> Iterator[T]:
    """The result of `work` for each part of the trees, in order. Several threads may call `work`. `partial_traces` is
    described at `parts`. Raises `CommandError` (exit 1)."""
    table = Table(directory, drops)
    formats = {otlp.KEY: Spans(otlp.RESOLUTION), jaeger.KEY: Spans(jaeger.RESOLUTION)}
    for path in dict.fromkeys(paths):
        try:
            _read(path, table, formats, directory, drops)
        except TooMuchError as error:
            raise unreadable(path, f"there are {error}", "give fewer files at a time, or a sample") from error
    yield from _of_rows(table, directory, drops, work)
    for spans in formats.values():
        for linked, _ in parts(spans, directory, drops, partial_traces=partial_traces):
            yield work(linked)


def _read(path: Path, table: Table, formats: dict[str, Spans], directory: Directory, drops: Drops) -> None:
    begin = _beginning(path)
    for signature, cause, hint in _UNREADABLE:
        if begin.startswith(signature):
            raise unreadable(path, cause, hint)
    if begin.startswith(PARQUET):
        for batch in parquet_batches(path):
            table.add(batch)
    elif begin.lstrip(BOM_UTF8 + b" \t\r\n").startswith((b"{", b"[")):
        _read_json(path, formats, directory, drops)
    else:
        for batch in csv_batches(path):
            table.add(batch)


def _beginning(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise unreadable(path, "it is not a regular file")
        with path.open("rb") as stream:
            return stream.read(256)
    except (OSError, ValueError) as error:
        raise wrong_usage(
            "ADM802",
            f"cannot read the traces `{path}`",
            cause=(getattr(error, "strerror", None) or "the system refused").lower(),
        ) from error


def _read_json(path: Path, formats: dict[str, Spans], directory: Directory, drops: Drops) -> None:
    number = 0
    begun: set[str] = set()
    for line, document in documents(path, drops):
        key = next((key for key in formats if isinstance(document, dict) and key in document), None)
        if key is None and isinstance(document, dict) and any(signal in document for signal in otlp.OTHER_SIGNALS):
            drops.note(Note.OTHER_SIGNALS)
            continue
        if key is None:
            raise unreadable(
                path,
                f"the document on line {line} has neither `{otlp.KEY}` nor `{jaeger.KEY}`",
                "docs/traces.md has the formats",
            )
        if key not in begun:
            formats[key].file(str(path), "span")
            begun.add(key)
        for span in _READERS[key](document):
            number += 1
            if not formats[key].add(_renamed(span, directory.names_of), number):
                drops.skip(1, f"span {number} of `{path}`")


def _renamed(span: Span, names: TraceNames) -> Span:
    """The span with the names of the program."""
    return span._replace(service=names.service(span.service), peer=names.peer(span.peer, span.port))


def _of_rows(table: Table, directory: Directory, drops: Drops, work: Callable[[Linked], T]) -> Iterator[T]:
    if not table.traces:
        return
    counts = table.counts()
    unusable = table.unusable()
    large = too_large(counts) & ~unusable
    for reason, left_out in ((Reason.UNUSABLE, unusable), (Reason.TOO_LARGE, large)):
        numbers = np.flatnonzero(left_out)
        if len(numbers):
            # Caller and callee record one row each of a call.
            drops.add(reason, len(numbers), int(counts[numbers].sum()) // 2, partial(table.place, int(numbers[0])))
    ids = Ids(*table.paths.columns(), *directory.ends())

    def one(part: tuple[int, Rows]) -> tuple[int, Result, T | None]:
        result = link(part[1], part[0], ids)
        return part[0], result, work(result.linked) if len(result.traces) else None

    for low, result, evaluation in _in_order(one, table.parts(counts, unusable | large)):
        drops.duplicates += result.duplicates
        for reason in Reason:
            trees = np.flatnonzero(result.reasons == reason)
            if len(trees):
                first = low + int(trees[0])
                drops.add(reason, len(trees), int(result.calls[trees].sum()), partial(table.place, first))
        if evaluation is not None:
            yield evaluation


def _in_order(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """The results of `work` in the order of `items`. Only a few items are in memory at a time."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            del item
            if len(waiting) >= WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
