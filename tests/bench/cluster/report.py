"""The tables of the benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from tests.bench.measure import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from tests.bench.cluster.application import Size
    from tests.bench.cluster.figures import Figures, Sample, Step

MEGABYTE: Final = 1e6
NONE: Final = "not reached"


def show(console: Console, figures: Figures, size: Size) -> None:
    console.print(f"  {size}; {figures.adms} services have an ADM; all pods ran after {figures.prepared:.0f} s")
    console.print(_times(figures))
    if figures.needed:
        console.print(f"  {figures.needed}")
    console.print(_steps(figures))
    if len(figures.samples) > 1:
        console.print(_costs(figures.samples, figures.long))
    if figures.requests:
        console.print(_requests(figures))
    elif figures.samples:
        console.print("  the server does not say how many requests it makes")
    state = "all clients are in sync in the end" if figures.ended_in_sync else "not all clients are in sync in the end"
    console.print(Text(f"  {state}", style="" if figures.ended_in_sync else "red"))
    console.print(f"  Programmed: {figures.programmed or NONE}", markup=False, soft_wrap=True)
    if figures.problem:
        console.print(Text(f"  it ended early: {figures.problem}", style="red"), soft_wrap=True)
    console.print()


def _times(figures: Figures) -> Table:
    table = Table(title="Start and takeover, s", title_justify="left")
    for name in ("", "median", "lowest", "highest", "runs"):
        table.add_column(name, justify="right" if name else "left")
    starts, takeovers = figures.starts, figures.takeovers
    rows: list[tuple[str, Sequence[float]]] = [
        ("start: from the process to the first plan in force", [each.in_force for each in starts]),
        ("  modules are loaded, the API server is asked", [each.ready for each in starts]),
        ("  then: all lists are read", [each.read - each.ready for each in starts]),
        ("  then: until the plan is in force", [each.in_force - each.read for each in starts]),
        ("    of that: the compile, with all snapshots", [each.compile for each in starts]),
        ("all clients connected and in sync", [] if figures.connected is None else [figures.connected]),
        ("takeover: from SIGKILL until the last client is in sync", [each.in_sync for each in takeovers]),
        ("  the other replica holds the Lease", [each.active for each in takeovers]),
        ("  then: until the last client is in sync", [each.in_sync - each.active for each in takeovers]),
    ]
    for name, values in rows:
        if not values:
            table.add_row(name, NONE)
            continue
        found = spread(values)
        table.add_row(name, f"{found.median:.2f}", f"{found.low:.2f}", f"{found.high:.2f}", str(found.runs))
    return table


def _steps(figures: Figures) -> Table:
    table = Table(
        title="Pods replaced that proxies need: from an address in the API server to the last acknowledgement, s",
        title_justify="left",
    )
    for name in ("a second", "reached", "addresses", "p50", "p99", "highest", "late", "needed by none", "keeps up"):
        table.add_column(name, justify="right")
    for each in figures.steps:
        _row(table, f"{each.wanted:g}", each)
    if figures.long is not None:
        table.add_section()
        _row(table, f"{figures.long.wanted:g}, for minutes", figures.long)
    return table


def _row(table: Table, name: str, step: Step) -> None:
    found = sorted(step.seconds)
    times = [f"{value:.3f}" for value in (percentile(found, 50), percentile(found, 99), found[-1])] if found else []
    keeps = Text("yes") if step.keeps_up else Text("no", style="red")
    shown = times or ["", "", ""]
    table.add_row(
        name, f"{step.reached:.1f}", str(len(found)), *shown, str(step.late), str(step.unused), keeps,
    )  # fmt: skip


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def _costs(samples: Sequence[Sample], step: Step | None) -> Table:
    begin, middle, end = samples[0], samples[len(samples) // 2], samples[-1]
    seconds = end.at - begin.at
    rate = 0.0 if step is None else step.reached
    table = Table(title=f"What it costs, in {seconds:.0f} s", title_justify="left")
    for name in ("", "CPU, cores", "ms for each pod", "memory, MB: begin", "middle", "end"):
        table.add_column(name, justify="right" if name else "left")

    def row(name: str, used: float, memory: Sequence[float] = ()) -> None:
        each = f"{1000 * used / seconds / rate:.1f}" if rate else ""
        table.add_row(name, f"{used / seconds:.2f}", each, *(f"{value / MEGABYTE:.0f}" for value in memory))

    moments = [each.server for each in (begin, middle, end)]
    first, last = moments[0], moments[-1]
    row("the server", last.cpu - first.cpu, [each.memory for each in moments])
    row("its workers", last.workers_cpu - first.workers_cpu, [each.workers_memory for each in moments])
    table.add_section()
    for name, value in end.others.items():
        row(name, value - begin.others[name])
    return table


def _requests(figures: Figures) -> Table:
    seconds = figures.samples[-1].at - figures.samples[0].at
    table = Table(title=f"Requests of the server to the API server, in {seconds:.0f} s", title_justify="left")
    for name in ("verb", "resource", "requests", "a minute"):
        table.add_column(name, justify="right" if name in ("requests", "a minute") else "left")
    for (verb, resource), count in sorted(figures.requests.items()):
        if count:
            table.add_row(verb, resource, f"{count:.0f}", f"{60 * count / seconds:.1f}")
    return table
