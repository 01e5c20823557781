"""A million traces with 25 million calls, written once as CSV and as Parquet, and evaluated by whole commands.

generated files -> `admc overhead PROGRAM --traces FILE` -> seconds and peak memory, beside the goals
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from tests.bench.errors import SkippedError
from tests.bench.measure import run, spread
from tests.bench.traces import generate

if TYPE_CHECKING:
    from rich.console import Console

ADMC: Final = str(Path(sys.executable).with_name("admc"))
TRACES: Final = 1_000_000
SEED: Final = 1
SECONDS: Final = 60
BYTES: Final = 4_000_000_000
DISK: Final = 8_000_000_000
"""Bytes that are free before, at least: the files take 5 GB."""
MEGABYTE: Final = 1_000_000


def traces(console: Console, folder: Path, runs: int, count: int = TRACES) -> None:
    if shutil.disk_usage(folder).free < DISK:
        raise SkippedError(f"the traces need {DISK // MEGABYTE:,} MB of disk. Skipped without it: a million traces")
    program = folder / "traced.adm"
    program.write_text(generate.program())
    written = generate.write(folder, count, SEED)
    try:
        _evaluate(console, program, written, runs)
    finally:
        written.csv.unlink()
        written.parquet.unlink()


def _evaluate(console: Console, program: Path, written: generate.Written, runs: int) -> None:
    table = Table(
        title=f"`admc overhead --traces`: {written.traces:,} requests, {written.calls:,} calls", title_justify="left"
    )
    for name in ("file", "MB", "rows", "median", "lowest", "highest", "runs", "goal", "CPU", "peak memory", "goal "):
        table.add_column(name, justify="left" if name == "file" else "right")
    output = b""
    for file in (written.csv, written.parquet):
        found = []
        for _ in range(runs):
            done = run([ADMC, "overhead", str(program), "--traces", str(file)])
            if done.code:
                raise SystemExit(f"`admc overhead --traces {file}` ended with {done.code}")
            found.append(done)
            output = done.output
        seconds, peak = spread([each.wall for each in found]), max(each.rss for each in found)
        slow, large = seconds.median > SECONDS, peak > BYTES
        table.add_row(
            file.suffix[1:],
            f"{file.stat().st_size / MEGABYTE:,.0f}",
            f"{written.rows:,}",
            f"[red]{seconds.median:.1f} s[/]" if slow else f"{seconds.median:.1f} s",
            f"{seconds.low:.1f}",
            f"{seconds.high:.1f}",
            str(seconds.runs),
            f"{SECONDS} s",
            f"{spread([each.cpu for each in found]).median:.1f} s",
            f"[red]{peak / MEGABYTE:,.0f} MB[/]" if large else f"{peak / MEGABYTE:,.0f} MB",
            f"{BYTES / MEGABYTE:,.0f} MB",
        )
    console.print(table)
    console.print(output.decode(), markup=False, highlight=False)
