"""The findings of `admc try` for a terminal: each request, its declared and observed results, and the ADM."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from admc.base.baseline import baseline_of
from admc.base.console import console_on
from admc.base.terminal import visible
from admc.testbed.findings import ProbeOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.testbed.session import Trial
    from admc.testbed.trial import CallRow, PolicyRow
    from dsl.program import Port, Program

    Row = TypeVar("Row", CallRow, PolicyRow)

ROWS: Final = 60
"""Rows of each table that are listed. Of the others, rows without a mistake are only counted."""
WIDE: Final = 112
"""Columns that the table of policies needs. A narrower terminal shows each policy on lines of its own."""
STYLES: Final = {
    ProbeOutcome.ENFORCED: "green",
    ProbeOutcome.NOT_ENFORCED: "bold red",
    ProbeOutcome.HIDDEN: "yellow",
    ProbeOutcome.NOT_OBSERVABLE: "yellow",
    ProbeOutcome.NOT_TRIED: "bold red",
}


def render(trial: Trial, *, colour: bool, width: int) -> str:
    stream = io.StringIO()
    console = console_on(stream, colour=colour, width=width)
    console.print(Text.assemble((visible(trial.program.app), "bold"), f", tried on Envoy {trial.envoy}"))
    console.print()
    calls, policies = _shown(trial.calls), _shown(trial.policies)
    console.print(_calls(trial.program, calls))
    _rest(console, len(trial.calls) - len(calls), "calls")
    console.print()
    if trial.policies:
        if width >= WIDE:
            console.print(_policies(policies))
        else:
            _stacked(console, policies)
        _rest(console, len(trial.policies) - len(policies), "rows")
        console.print()
    if trial.moved_ports:
        moved = ", ".join(f"{tried} for {number}" for number, tried in sorted(trial.moved_ports.items()))
        console.print(Text(f"other ports, since these are taken or need privileges: {moved}", style="dim"))
    console.print(Text(_verdict(trial)))
    console.print(Text(_size(trial), style="bold"))
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())


def _shown(rows: Sequence[Row]) -> list[Row]:
    """Return all rows with a mistake, and as many others as there is room for, in their order."""
    room = ROWS - sum(not row.finding.outcome.is_good for row in rows)
    shown = []
    for row in rows:
        good = row.finding.outcome.is_good
        if not good or room > 0:
            shown.append(row)
        room -= good
    return shown


def _rest(console: Console, number: int, what: str) -> None:
    if number:
        console.print(Text(f"... and {number} more {what} without a mistake; `--json` has them all", style="dim"))


def _calls(program: Program, rows: list[CallRow]) -> Table:
    table = _table()
    for title in ("call", "request", "result", "through the ADM of"):
        table.add_column(title, overflow="fold")
    for row in rows:
        finding = row.finding
        right = finding.outcome is ProbeOutcome.ENFORCED
        observed = (
            finding.observed if right or not finding.expected else f"{finding.observed}; expected: {finding.expected}"
        )
        destination = row.call.destination
        if len(_ports(program, destination)) > 1:
            destination = f"{destination}:{row.call.port.number}"
        table.add_row(
            Text(visible(f"{row.call.source} -> {destination}")),
            Text(visible(finding.request)),
            Text(visible(observed), style="" if right else STYLES[finding.outcome]),
            Text(visible(", ".join(row.adms)) or "-"),
        )
    return table


def _ports(program: Program, name: str) -> tuple[Port, ...]:
    return program.services[name].ports if name in program.services else program.externals[name].ports


def _policies(rows: list[PolicyRow]) -> Table:
    """Two lines a row: the policy and its call, the outcome and its place."""
    table = _table(expand=True)
    table.add_column("policy and call", overflow="fold", max_width=36)
    for title in ("request", "expected", "observed"):
        table.add_column(title, overflow="fold", ratio=1)
    table.add_column("outcome and place", overflow="fold", max_width=24)
    for row in rows:
        finding = row.finding
        style = STYLES[finding.outcome]
        table.add_row(
            Text.assemble((visible(row.policy), "bold"), f"\n{visible(_call(row))}"),
            Text(visible(finding.request)),
            Text(visible(finding.expected)),
            Text(visible(finding.observed)),
            Text.assemble((finding.outcome.value, style), f"\n{_place(row)}"),
        )
    return table


def _table(*, expand: bool = False) -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, expand=expand)


def _call(row: PolicyRow) -> str:
    return f"{', '.join(row.sources)} -> {row.destination}"


def _place(row: PolicyRow) -> str:
    if row.side is None or row.adm is None:
        return f"{visible(row.destination)} (network)"
    return f"{visible(row.adm)} ({row.side.value})"


def _stacked(console: Console, rows: list[PolicyRow]) -> None:
    for row in rows:
        finding = row.finding
        console.print(
            Text.assemble(
                (visible(row.policy), "bold"),
                f"  {visible(_call(row))}, at {_place(row)}: ",
                (finding.outcome.value, STYLES[finding.outcome]),
            ),
            overflow="fold",
        )
        lines = (("request", finding.request), ("expected", finding.expected), ("observed", finding.observed))
        table = Table.grid(padding=(0, 0))
        table.add_column(width=len("  observed  "), style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in lines:
            if value:
                table.add_row(f"  {label}", Text(visible(value)))
        console.print(table)


def _verdict(trial: Trial) -> str:
    parts = [f"{trial.answered} of {len(trial.calls)} calls answered as declared"]
    outcomes = trial.outcomes
    tried = outcomes[ProbeOutcome.ENFORCED] + outcomes[ProbeOutcome.NOT_ENFORCED]
    if tried:
        parts.append(f"{outcomes[ProbeOutcome.ENFORCED]} of {tried} enforcements seen")
    others = (ProbeOutcome.HIDDEN, ProbeOutcome.NOT_OBSERVABLE, ProbeOutcome.NOT_TRIED)
    parts += [f"{outcomes[outcome]} {outcome.value}" for outcome in others if outcomes[outcome]]
    return f"{'; '.join(parts)}; {trial.seconds:.1f} s"


def _size(trial: Trial) -> str:
    sentence = baseline_of(trial.program.services.values()).sentence(len(trial.placement.adms), "gets", "get")
    return f"{sentence}; {trial.placement.status.value}"
