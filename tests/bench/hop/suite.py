"""`python -m tests.bench --only hop`: what one http or grpc hop takes of CPU for a request, and what its parts take.

the arms of `arms` -> rounds of short slices (`measure`) -> a table for each load: median, and paired differences
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from admc.base.exits import CommandError
from admc.cost.measurement import programs
from admc.cost.measurement.bed import Tools
from tests.bench.errors import SkippedError
from tests.bench.hop.arms import ARMS, EMITTED
from tests.bench.hop.measure import CALLERS, SIZE, Bench, Load, difference, rounds
from tests.golang import MissingError, build

SOURCES: Final = Path(__file__).with_name("load")


def hop(console: Console, folder: Path, number: int) -> None:
    """Raises `SkippedError`, and `ProcessError` if requests fail."""
    try:
        tools = Tools(programs.envoy()[0], programs.app())
        load = build(SOURCES, "load")
    except CommandError as error:
        raise SkippedError(error.diagnostics[0].message) from error
    except MissingError as error:
        raise SkippedError(str(error)) from error
    with Bench(ARMS, folder / "hop", tools, str(load)).running() as measure:
        found = rounds(measure, list(ARMS), number)
    console.print(
        f"CPU of one hop without policies, at ingress, one worker: {CALLERS} callers without a pause, {SIZE} bytes "
        f"each way, {number} rounds in turns; microseconds a request, and the median difference from the emitted "
        "configuration with its interval of 95%\n"
    )
    for sent, by_arm in found.items():
        console.print(table(sent, by_arm))


def table(load: Load, by_arm: dict[str, list[float]]) -> Table:
    printed = Table(title=f"{load}", title_justify="left")
    for name in ("configuration", "us", "difference", "from", "to"):
        printed.add_column(name, justify="left" if name == "configuration" else "right")
    for name, values in by_arm.items():
        if name == EMITTED:
            cells = ("", "", "")
        else:
            found = difference(values, by_arm[EMITTED])
            cells = (f"{found.median:+.1f}", f"{found.low:+.1f}", f"{found.high:+.1f}")
        printed.add_row(name.replace("_", " "), f"{median(values):.1f}", *cells)
    return printed
