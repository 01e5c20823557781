"""Reads CSV and Parquet files with the columns of Alibaba's traces, by pyarrow (an extra of admc).

    file -> [csv_batches, parquet_batches] -> Batch after Batch

The id of a call is the column `rpcid` in files of 2021, and `rpc_id` in files of 2022. Other columns are not read.
Both functions raise `CommandError` (exit 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from admc.base.exits import wrong_usage
from admc.cost.traces.failures import unreadable
from admc.cost.traces.rows import Batch, Encoded
from dsl.diagnostics.diagnostic import did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "traceid": ("traceid",),
    "rpcid": ("rpcid", "rpc_id"),
    "um": ("um",),
    "dm": ("dm",),
    "rpctype": ("rpctype",),
    "timestamp": ("timestamp",),
    "rt": ("rt",),
}
"""Each column that is read, and the names that files give it."""
TEXTS: Final = ("traceid", "rpcid", "um", "dm", "rpctype")
BLOCK: Final = 32 << 20
"""Bytes of a CSV file that are read at once."""
BATCH: Final = 1 << 20
"""Rows of a Parquet file that are read at once."""
HEADER: Final = 1 << 16
MAX_ROW_GROUP: Final = 1 << 30
"""Most bytes of a row group, uncompressed."""
_ROW: Final = re.compile(r"[Rr]ow #([0-9]+)")
_CELLS: Final = re.compile(r"Expected ([0-9]+) columns, got ([0-9]+)")
_CELL: Final = re.compile(r"In CSV column #([0-9]+): .*?(?:invalid value '(.*)'|(invalid UTF8 data))")


def csv_batches(path: Path) -> Iterator[Batch]:
    arrow = _arrow("pyarrow.csv", path)
    header = _header(path)
    names = _chosen(path, header)
    try:
        with _opened(arrow, path, names) as reader:
            first = 1
            for batch in reader:
                yield _batch(path, first, batch, names)
                first += batch.num_rows
    except arrow.ArrowInvalid as error:
        placed = _with_its_row(arrow, path, names) or error
        raise unreadable(path, _cause(placed, header), "docs/traces.md has the columns") from error
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(path, _cause(error)) from error


def _opened(arrow: Any, path: Path, names: Mapping[str, str], *, threads: bool = True) -> Any:
    text = arrow.dictionary(arrow.int32(), arrow.string())
    types = {names[column]: text if column in TEXTS else arrow.float64() for column in COLUMNS}
    return arrow.csv.open_csv(
        path,
        read_options=arrow.csv.ReadOptions(block_size=BLOCK, use_threads=threads),
        convert_options=arrow.csv.ConvertOptions(column_types=types, include_columns=list(names.values())),
    )


def _with_its_row(arrow: Any, path: Path, names: Mapping[str, str]) -> Exception | None:
    """Read the file again with one thread, and return the error: only then does pyarrow name the row."""
    try:
        with _opened(arrow, path, names, threads=False) as reader:
            for _ in reader:
                pass
    except (OSError, arrow.ArrowException) as error:
        cause: Exception = error
        return cause
    return None


def parquet_batches(path: Path) -> Iterator[Batch]:
    arrow = _arrow("pyarrow.parquet", path)
    try:
        with arrow.parquet.ParquetFile(path) as file:
            metadata = file.metadata
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).total_byte_size > MAX_ROW_GROUP:
                    raise unreadable(path, f"row group {group + 1} has more than {MAX_ROW_GROUP:,} bytes")
            names = _chosen(path, file.schema_arrow.names)
            for column, name in names.items():
                kind = file.schema_arrow.field(name).type
                if arrow.types.is_nested(kind):
                    raise unreadable(path, f"the column `{column}` holds {kind}, and not single values")
        texts = [names[column] for column in TEXTS]
        with arrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            first = 1
            for batch in file.iter_batches(batch_size=BATCH, columns=list(names.values())):
                yield _batch(path, first, batch, names)
                first += batch.num_rows
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(path, _cause(error)) from error


def _arrow(module: str, path: Path) -> Any:
    """Import pyarrow with one of its modules."""
    import importlib

    try:
        importlib.import_module(module)
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise wrong_usage(
            "ADM881",
            f"`{path}` needs pyarrow, which is not installed",
            hint="install it with `pip install 'admc[traces]'`; files in JSON need no extra",
        ) from error


def _header(path: Path) -> list[str]:
    try:
        with path.open("rb") as stream:
            line, newline, _ = stream.read(HEADER).partition(b"\n")
    except OSError as error:
        raise unreadable(path, (error.strerror or "the system refused").lower()) from error
    if not newline:
        raise unreadable(path, "it has no row, or its first line is too long")
    return [name.strip().strip('"') for name in line.decode("utf-8-sig", "replace").rstrip("\r").split(",")]


def _chosen(path: Path, header: list[str]) -> dict[str, str]:
    """Map each column that is read to its name in the file."""
    header_names = {}
    for column, names in COLUMNS.items():
        fitting = [name for name in header if name in names]
        if len(fitting) != 1:
            problem = "is missing" if not fitting else "stands twice"
            hint = None if fitting else did_you_mean(column, header)
            raise unreadable(
                path, f"the column `{column}` {problem}", hint or "docs/traces.md has the formats and columns"
            )
        header_names[column] = fitting[0]
    return header_names


def _batch(path: Path, first: int, batch: Any, names: Mapping[str, str]) -> Batch:
    columns = {column: batch.column(name) for column, name in names.items()}
    trace, rpcid, source, destination, kind = (_encoded(path, column, columns[column]) for column in TEXTS)
    stamp, spent = (_numbers(path, column, columns[column]) for column in ("timestamp", "rt"))
    return Batch(str(path), first, trace, rpcid, source, destination, kind, stamp, spent)


def _encoded(path: Path, name: str, column: Any) -> Encoded:
    """A column of texts; a missing value becomes an empty text."""
    import pyarrow as arrow

    if not arrow.types.is_dictionary(column.type):
        if not arrow.types.is_string(column.type) and not arrow.types.is_large_string(column.type):
            raise unreadable(path, f"the column `{name}` holds {column.type}, and not text")
        column = column.dictionary_encode()
    texts = column.dictionary.to_pylist()
    if any(text is not None and not isinstance(text, str) for text in texts):
        raise unreadable(path, f"the column `{name}` holds {column.type}, and not text")
    places = column.indices
    if places.null_count:
        places = places.fill_null(len(texts))
        texts.append("")
    return Encoded([text or "" for text in texts], places.to_numpy(zero_copy_only=False).astype(np.int32, copy=False))


def _numbers(path: Path, name: str, column: Any) -> NDArray[np.float64]:
    """A column of numbers; a missing value becomes NaN."""
    import pyarrow as arrow

    if not (arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)):
        raise unreadable(path, f"the column `{name}` holds {column.type}, and not numbers")
    numbers: NDArray[np.float64] = column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _cause(error: Exception, header: Sequence[str] = ()) -> str:
    """Shorten pyarrow's message to one line, in which row 1 is the first row below the header."""
    message = " ".join(str(error).split())
    row, cells, cell = _ROW.search(message), _CELLS.search(message), _CELL.search(message)
    place = f"row {int(row[1]) - 1}" if row else "a row"
    if cells:
        return f"{place} has {cells[2]} cells, and the header has {cells[1]}"
    if cell and int(cell[1]) < len(header):
        held = f"`{cell[2][:60]}`, and not a number" if cell[2] is not None else "text that is not UTF-8"
        return f"{place}: the column `{header[int(cell[1])]}` holds {held}"
    return f"{place}: {message[:300]}" if row else message[:300]
