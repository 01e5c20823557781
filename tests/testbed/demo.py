"""`make demo`: a program's plan, in front of real services, with real traffic.

    python -m tests.testbed.demo [PROGRAM]

Compiles the program, starts an Envoy for each ADM of its plan and an echo service for each service, sends requests
along every declared call, and tries every policy until it shows. Ends with 1 where something is not as the program
says.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from admc.compile.pipeline import compile_program
from admc.exits import CommandError
from dsl.program import Protocol, Side
from emitters.errors import EmitError
from tests.testbed.bed import RunningBed
from tests.testbed.echo import TakenError
from tests.testbed.envoys import EnvoyError, envoy_binary
from tests.testbed.findings import Outcome
from tests.testbed.observe import CallRow, PolicyRow, calls, policies
from tests.testbed.site import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from solver.placement import Placement

PROGRAM = Path("examples/hotel_reservation/policies.adm")
TRIED = (Outcome.SEEN, Outcome.WRONG)
COLOURS = {Outcome.SEEN: "green", Outcome.WRONG: "bold red", Outcome.HIDDEN: "yellow", Outcome.UNSEEN: "yellow"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 where everything was as the program says, 1 where not."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("program", nargs="?", type=Path, default=PROGRAM, help=f"default: {PROGRAM}")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the emitted configuration and the logs in DIR")
    options = parser.parse_args(arguments)
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 150
    console = Console(highlight=False, width=wide)
    binary = envoy_binary()
    if binary is None:
        console.print("[yellow]SKIPPED:[/] there is no Envoy for this platform among the development dependencies")
        return 1
    before = signal.signal(signal.SIGTERM, _interrupt)  # so that a `kill` cleans up as Ctrl-C does
    try:
        with tempfile.TemporaryDirectory(prefix="admc-demo-") as folder:
            return _run(options.program, options.keep or Path(folder), binary, console)
    except (CommandError, EmitError) as error:
        for diagnostic in error.diagnostics:
            console.print(f"[red]{diagnostic.code}[/] {escape(diagnostic.message)}", soft_wrap=True)
        return 1
    except (EnvoyError, TakenError) as error:
        console.print(f"[red]the demo cannot run:[/] {escape(str(error))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; every process of the demo has ended")
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _run(path: Path, folder: Path, binary: str, console: Console) -> int:
    started = time.monotonic()
    compiled = compile_program(path)
    program, placement = compiled.program, compiled.placement
    console.print(f"[bold]{program.app}[/]: {_summary(placement, len(program.services))}")
    for adm in placement.adms:
        sides = [f"{side.value}: {', '.join(names)}" for side, names in _sides(adm.ingress, adm.egress) if names]
        console.print(f"  [cyan]{adm.service}[/]  {'; '.join(sides)}", soft_wrap=True)
    console.print(
        "Without privileges nothing is redirected: each service has an address in 127.0.0.0/8, and callers dial their "
        "ADM's explicit listeners. NetworkPolicies are not enforced here.",
        style="dim",
    )
    with RunningBed(Site(program, placement, folder), binary) as bed:
        console.print(f"{len(bed.envoys.running)} Envoys in front of {len(bed.services.endpoints)} echo services\n")
        call_rows = list(calls(bed, placement))
        policy_rows = list(policies(bed, placement))
    console.print(_call_table(call_rows))
    console.print(_policy_table(policy_rows))
    return _verdict(call_rows, policy_rows, placement, len(program.services), time.monotonic() - started, console)


def _sides(ingress: tuple[str, ...], egress: tuple[str, ...]) -> tuple[tuple[Side, tuple[str, ...]], ...]:
    return ((Side.INGRESS, ingress), (Side.EGRESS, egress))


def _summary(placement: Placement, services: int) -> str:
    adms = len(placement.adms)
    return f"{adms} {'ADM' if adms == 1 else 'ADMs'} instead of {services} sidecars ({placement.status.value})"


def _mark(outcome: Outcome, said: str | None = None) -> str:
    return f"[{COLOURS[outcome]}]{said or outcome.value}[/]"


def _table(title: str, *columns: str) -> Table:
    table = Table(*columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[-1].overflow = "fold"
    return table


def _call_table(rows: list[CallRow]) -> Table:
    table = _table(
        "Traffic along every declared call", "call", "protocol", "through the ADM of", "as declared", "answer"
    )
    for row in rows:
        call = row.call
        table.add_row(
            f"{call.source} -> {call.destination}:{call.port.number}",
            "http/1.1, http/2" if call.port.protocol is Protocol.HTTP else call.port.protocol.value,
            ", ".join(row.proxies) or "[dim]none: direct[/]",
            _mark(row.finding.outcome, "yes" if row.finding.outcome is Outcome.SEEN else "NO"),
            escape(row.finding.evidence),
        )
    return table


def _policy_table(rows: list[PolicyRow]) -> Table:
    table = _table("What was enforced, and where", "policy", "kind", "on", "side", "by the ADM of", "", "observed")
    last = None
    for row in rows:
        table.add_row(
            "" if row.policy == last else row.policy,
            "" if row.policy == last else row.kind,
            f"{', '.join(row.sources)} -> {row.destination}",
            row.side.value,
            row.host,
            _mark(row.finding.outcome),
            escape(row.finding.evidence),
        )
        last = row.policy
    return table


def _verdict(
    call_rows: list[CallRow],
    policy_rows: list[PolicyRow],
    placement: Placement,
    services: int,
    seconds: float,
    console: Console,
) -> int:
    count = Counter(row.finding.outcome for row in policy_rows)
    answered = sum(row.finding.outcome is Outcome.SEEN for row in call_rows)
    failed = count[Outcome.WRONG] + len(call_rows) - answered
    parts = [f"{answered} of {len(call_rows)} calls answered as declared"]
    parts += [f"{count[outcome]} enforcements tried and {outcome.value}" for outcome in TRIED if count[outcome]]
    parts += [f"{count[outcome]} {outcome.value}" for outcome in Outcome if outcome not in TRIED and count[outcome]]
    console.print(f"{'; '.join(parts)}; {seconds:.1f} s")
    console.print(f"[bold]{_summary(placement, services)}[/]")
    if failed:
        console.print(f"[bold red]{failed} not as the program says[/]")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
