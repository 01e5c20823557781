"""`make bench`: how long admc takes, and how much memory, in one run and on one machine.

    python -m tests.bench [--only SUITE ...] [--runs N] [--seed N] [--profile PROFILE] [--minutes N]

Whole commands are timed from start to exit by the operating system; stages are timed inside a fresh process of their
own. Every figure is the median of several runs, with the lowest and the highest beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.diff.change import CHANGED, changed
from tests.bench.errors import SkippedError
from tests.bench.measure import Run, Spread, run, spread
from tests.generate import cover, generate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.generate import Shape

ADMC = str(Path(sys.executable).with_name("admc"))
HOTEL = "examples/hotel_reservation/policies.adm"
SEED = 1
MEGABYTE = 1_000_000
RUNS = {
    "commands": 7,
    "hotel": 7,
    "large": 3,
    "largest": 2,
    "cover": 1,
    "hops": 1,
    "hop": 60,
    "cost": 3,
    "xds": 3,
    "traces": 1,
    "overhead": 1,
    "diff": 3,
    "advise": 1,
    "cluster": 3,
    "creation": 1,
}
SUITES = tuple(RUNS)
BY_NAME = ("cluster", "creation")
"""Run only where `--only` names them."""
WARMED = ("commands", "hotel")
"""So short that it matters whether the disk's cache is warm."""


class Size(NamedTuple):
    services: int
    calls: int
    policies: int

    def __str__(self) -> str:
        return f"{self.services:,} services, {self.calls:,} calls, {self.policies:,} policies"


class Goal(NamedTuple):
    """What was promised: seconds, and peak bytes where memory was promised too."""

    seconds: float
    rss: int | None = None


PROFILE, PROFILE_FACTOR = "meshinsight", 3
LARGE, LARGEST = Size(10_000, 30_000, 2_000), Size(50_000, 150_000, 5_000)


class Bench:
    """One run: its console, its scratch folder, and how often each thing is measured."""

    def __init__(self, console: Console, folder: Path, options: argparse.Namespace) -> None:
        self.console = console
        self.folder = folder
        self.runs: int | None = options.runs
        self.seed: int | None = options.seed
        self.profile: str | None = options.profile
        self.minutes: float = options.minutes

    def repeats(self, suite: str) -> int:
        return self.runs or RUNS[suite]

    def whole(self, suite: str, rows: Sequence[tuple[str, Sequence[str], Goal]]) -> list[Spread]:
        """A table of whole commands, and the seconds of each."""
        measured = []
        table = Table(title=f"Whole commands ({suite})", title_justify="left")
        for name in ("command", "median", "lowest", "highest", "runs", "goal", "of the goal", "peak memory"):
            table.add_column(name, justify="left" if name == "command" else "right")
        for title, command, goal in rows:
            if suite in WARMED:
                self._run(command)
            found = [self._run(command) for _ in range(self.repeats(suite))]
            seconds, rss = spread([each.wall for each in found]), max(each.rss for each in found)
            measured.append(seconds)
            memory = f"{rss / MEGABYTE:,.0f} MB"
            if goal.rss:
                memory += f" of {goal.rss / MEGABYTE:,.0f}"
            table.add_row(
                title, *_seconds(seconds), str(seconds.runs), f"{goal.seconds:g} s", _of(seconds, goal), memory
            )
        self.console.print(table)
        return measured

    def stages(self, suite: str, programs: dict[str, Path]) -> dict[str, list[dict[str, Any]]]:
        """A table of stages, one column a program. What each run said of itself."""
        reports = {name: [self.work(path) for _ in range(self.repeats(suite))] for name, path in programs.items()}
        names = sorted({stage for runs in reports.values() for each in runs for stage in each["stages"]}, key=_order)
        table = Table(title=f"Stages ({suite}), ms: median (lowest .. highest)", title_justify="left")
        table.add_column("stage")
        for name in reports:
            table.add_column(name, justify="right")
        rows: list[tuple[str, Callable[[dict[str, Any]], float]]] = [("imports", lambda each: each["imports"])]
        rows += [
            (stage, lambda each, stage=stage: each["stages"].get(stage, 0.0)) for stage in sorted(names, key=_order)
        ]
        rows.append(("admc's own work", lambda each: each["own"]))
        for title, value in rows:
            spreads = [spread([value(each) * 1000 for each in runs]) for runs in reports.values()]
            table.add_row(title, *(f"{s.median:,.1f} ({s.low:,.1f} .. {s.high:,.1f})" for s in spreads))
        self.console.print(table)
        for name, runs in reports.items():
            self.console.print(f"  {name}: {_result(runs)}", soft_wrap=True)
        return reports

    def generated(self, name: str, text: Callable[[], str]) -> Path:
        """A generated program, written once."""
        path = self.folder / f"{name}.adm"
        if not path.exists():
            path.write_text(text())
        return path

    def prepare(self, command: Sequence[str]) -> None:
        """A command whose time is not measured."""
        self._run(command)

    def output(self, command: Sequence[str]) -> bytes:
        """What a command prints."""
        return self._run(command).output

    def _run(self, command: Sequence[str]) -> Run:
        done = run(command)
        if done.code != 0:
            raise SystemExit(f"`{' '.join(command)}` ended with {done.code}")
        return done

    def work(self, program: Path) -> dict[str, Any]:
        plan = self.folder / "plan.json"
        done = self._run([sys.executable, "-m", "tests.bench.worker", str(program), str(plan)])
        report: dict[str, Any] = json.loads(done.output)
        return {**report, "rss": done.rss, "wall": done.wall}


def commands(bench: Bench) -> None:
    bench.whole(
        "commands",
        [
            ("python -c pass", [sys.executable, "-c", "pass"], Goal(0.4)),
            ("admc --help", [ADMC, "--help"], Goal(0.4)),
            (f"admc check {HOTEL}", [ADMC, "check", HOTEL], Goal(0.4)),
        ],
    )


def hotel(bench: Bench) -> None:
    plan = str(bench.folder / "plan.json")
    bench.whole("hotel", [(f"admc compile {HOTEL}", [ADMC, "compile", HOTEL, "-o", plan], Goal(1.5))])
    own = [each["own"] for each in bench.stages("hotel", {"hotel reservation": Path(HOTEL)})["hotel reservation"]]
    found = spread(own)
    bench.console.print(f"  admc's own work: {found.median:.3f} s, {_of(found, Goal(0.3))} of the goal of 0.3 s\n")


def large(bench: Bench) -> None:
    _generated(bench, "large", LARGE, Goal(15, 1_500 * MEGABYTE))


def largest(bench: Bench) -> None:
    _generated(bench, "largest", LARGEST, Goal(90))


def _generated(bench: Bench, suite: str, size: Size, goal: Goal) -> None:
    path = bench.generated(suite, lambda: generate(*size, SEED))
    priced = bench.generated(f"{suite}-profile", lambda: f"{generate(*size, SEED)}\nprofile {PROFILE}\n")
    plan = str(bench.folder / "plan.json")
    (without,) = bench.whole(suite, [(f"admc compile, {size}", [ADMC, "compile", str(path), "-o", plan], goal)])
    limit = Goal(round(PROFILE_FACTOR * without.median, 3))
    title = f"admc compile with `profile {PROFILE}`, at most {PROFILE_FACTOR} times the time without"
    bench.whole(suite, [(title, [ADMC, "compile", str(priced), "-o", plan], limit)])
    bench.stages(suite, {str(size): path, f"with {PROFILE}": priced})


def cover_(bench: Bench) -> None:
    """One policy that may sit at either side of every call: a minimum vertex cover."""
    shapes: tuple[Shape, ...] = ("powerlaw", "uniform")
    table = Table(title="`access_log` on `* -> *`: a minimum vertex cover", title_justify="left")
    for name in ("graph", "services", "calls", "ADMs", "at least", "gap", "", "seconds", "solving", "peak memory"):
        table.add_column(name, justify="right" if name not in ("graph", "") else "left")
    for size in (LARGE, LARGEST):
        for shape in shapes:
            name = f"cover-{shape}-{size.services}"
            path = bench.generated(name, lambda size=size, shape=shape: cover(size.services, size.calls, SEED, shape))
            runs = [bench.work(path) for _ in range(bench.repeats("cover"))]
            last = runs[-1]
            _, value, bound = last["objectives"][0]
            seconds = spread([each["wall"] for each in runs])
            solving = spread([sum(s for n, s in each["stages"].items() if n.startswith("solve")) for each in runs])
            table.add_row(
                shape,
                f"{last['services']:,}",
                f"{last['calls']:,}",
                f"{value:,}",
                f"{bound:,}",
                f"{100 * (value - bound) / value:.1f}%",
                last["status"],
                f"{seconds.median:.1f}",
                f"{solving.median:.1f}",
                f"{max(each['rss'] for each in runs) / MEGABYTE:,.0f} MB",
            )
    bench.console.print(table)


def hops_(bench: Bench) -> None:
    """What each place saves: counted, not measured."""
    from tests.bench.hops import hops

    hops(bench.console)


def hop_(bench: Bench) -> None:
    """What one hop takes of CPU; needs Go and an Envoy."""
    from admc.cost.measurement.processes import ProcessError
    from tests.bench.hop.suite import hop

    try:
        hop(bench.console, bench.folder, bench.repeats("hop"))
    except ProcessError as error:
        raise SystemExit(str(error)) from None


def cost_(bench: Bench) -> None:
    """What a mesh costs; needs Go, an Envoy and network namespaces, which not every machine has."""
    from tests.bench.cost.arm import CostError
    from tests.bench.cost.suite import cost
    from tests.testbed.mesh import MeshError

    try:
        cost(bench.console, bench.folder, bench.repeats("cost"))
    except (CostError, MeshError) as error:
        raise SystemExit(str(error)) from None


def xds_(bench: Bench) -> None:
    """The xDS server beside go-control-plane; needs Go."""
    from tests.bench.xds.compare import BrokenError
    from tests.bench.xds.suite import xds

    try:
        xds(bench.console, bench.folder, bench.repeats("xds"))
    except BrokenError as error:
        raise SystemExit(str(error)) from None


def traces_(bench: Bench) -> None:
    """A million traces, as CSV and as Parquet; needs 6 GB of disk for a while."""
    from tests.bench.traces.suite import traces

    traces(bench.console, bench.folder, bench.repeats("traces"))


def overhead_(bench: Bench) -> None:
    """How well a profile predicts; needs Go, an Envoy and network namespaces."""
    from admc.cost.measurement.child import FailedError
    from tests.bench.cost.arm import CostError
    from tests.bench.overhead.suite import overhead
    from tests.testbed.mesh import MeshError

    try:
        overhead(bench.console, bench.folder, bench.seed, bench.profile)
    except (FailedError, CostError, MeshError) as error:
        raise SystemExit(str(error)) from None


def cluster_(bench: Bench) -> None:
    """A server that follows a cluster of 10,000 pods, with 500 clients; needs Go, and programs of the cache."""
    from tests.bench.cluster.suite import cluster

    found = cluster(bench.console, bench.folder, runs=bench.repeats("cluster"), minutes=bench.minutes)
    if found.problem:
        raise SystemExit(1)


def creation_(bench: Bench) -> None:
    """Creation of 5,000 pods, with the webhook and the guard and without; needs programs of the cache."""
    from tests.bench.cluster.creation import creation

    creation(bench.console, bench.folder)


def diff_(bench: Bench) -> None:
    """Two saved plans of a large application: read, compared, and written as JSON."""
    base = bench.generated("diff-base", lambda: generate(*LARGE, SEED))
    head = bench.generated("diff-head", lambda: changed(base.read_text(), SEED))
    plans = [path.with_suffix(".plan.json") for path in (base, head)]
    bench.prepare([ADMC, "compile", str(base), "-o", str(plans[0])])
    bench.prepare([ADMC, "compile", str(head), "-o", str(plans[1]), "--previous", str(plans[0])])
    found = str(bench.folder / "difference.json")
    command = [ADMC, "diff", *map(str, plans), "--format", "json", "-o", found]
    title = f"admc diff of two saved plans, {LARGE}, {4 * CHANGED} policies changed"
    bench.whole("diff", [(title, command, Goal(5, 1_000 * MEGABYTE))])
    _programs(bench, base, head)


def advise_(bench: Bench) -> None:
    """The pods of a large mesh, as `kubectl get pods -A -o json` and `-o yaml` show them; and meshes in which each
    workload has a DestinationRule, a VirtualService and an AuthorizationPolicy, with the page of each."""
    from tests.bench.istio import services
    from tests.bench.istio.pods import PODS, write

    json_, yaml_ = write(bench.folder)
    rows = [
        (f"admc advise, {PODS:,} pods as {name}", [ADMC, "advise", str(path)], Goal(seconds, 1_000 * MEGABYTE))
        for name, path, seconds in (("JSON", json_, 10), ("YAML", yaml_, 40))
    ]
    for number, seconds in services.WORKLOADS.items():
        mesh, calls = services.write(bench.folder, number)
        goal = Goal(seconds, 1_000 * MEGABYTE)
        for name, options in (("", []), (", --calls", ["--calls", str(calls)]), (", as JSON", ["--format", "json"])):
            rows.append((f"{number:,} workloads{name}", [ADMC, "advise", str(mesh), *options], goal))
        saved = bench.folder / f"advice-{number}.json"
        saved.write_bytes(bench.output([ADMC, "advise", str(mesh), "--format", "json"]))
        page = [ADMC, "report", str(saved), "-o", str(saved.with_suffix(".html"))]
        rows.append((f"{number:,} workloads, admc report of the JSON", page, Goal(15, 700 * MEGABYTE)))
    bench.whole("advise", rows)


def _programs(bench: Bench, base: Path, head: Path) -> None:
    """The programs themselves, which are needed for steps and causes. Nothing is promised of these times."""
    command = [sys.executable, "-m", "tests.bench.diff.worker", str(base), str(head)]
    reports = [json.loads(bench.output(command)) for _ in range(bench.repeats("diff"))]
    table = Table(title=f"Two programs, {LARGE}: stages, in seconds", title_justify="left")
    for name in ("stage", "median", "lowest", "highest"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    names = dict.fromkeys(name for each in reports for name in each["stages"])
    for name in names:
        table.add_row(name, *_seconds(spread([each["stages"].get(name, 0.0) for each in reports])))
    table.add_row("admc's own work", *_seconds(spread([each["own"] for each in reports])))
    bench.console.print(table)
    first = reports[0]
    bench.console.print(
        f"  {first['weaker']} findings are weaker; {first['moves']} decisions moved, {first['complete']} with a "
        f"complete cause; {first['steps']} steps\n"
    )


def _seconds(value: Spread) -> tuple[str, str, str]:
    return f"{value.median:.3f} s", f"{value.low:.3f}", f"{value.high:.3f}"


def _of(value: Spread, goal: Goal) -> str:
    ratio = value.median / goal.seconds
    return f"{ratio:.2f}x" if ratio <= 1 else f"[red]{ratio:.2f}x[/]"


def _order(stage: str) -> int:
    """Stages in the order of the pipeline."""
    order = (
        "read",
        "parse",
        "resolve",
        "solve: options",
        "solve: costs",
        "solve: order",
        "solve: cover",
        "solve: model",
        "solve: result",
    )
    rest = ("solve: rest", "verify", "overhead", "plan", "write")
    return (*order, *rest).index(stage) if stage in (*order, *rest) else len(order)


def _result(runs: list[dict[str, Any]]) -> str:
    last = runs[-1]
    levels = ", ".join(f"{metric} {value:,} (at least {bound:,})" for metric, value, bound in last["objectives"])
    peak = max(each["rss"] for each in runs) / MEGABYTE
    return (
        f"{last['adms']:,} ADMs for {last['services']:,} services, {last['status']}: {levels}; {peak:,.0f} MB at most"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--runs", type=int, help="runs of each measurement; by default fewer of the long ones")
    parser.add_argument("--seed", type=int, help="of suite `overhead`; a new one unless given")
    parser.add_argument("--profile", help="for suite `overhead`, which measures one unless it is given")
    parser.add_argument("--minutes", type=float, default=5.0, help="of suite `cluster`: how long pods are replaced")
    options = parser.parse_args(arguments)
    if options.runs is not None and options.runs < 1:
        parser.error("--runs is at least 1")
    if not 0 < options.minutes <= 60:
        parser.error("--minutes is more than 0, and at most 60")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    console.print(
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores{load}; generated programs have seed {SEED}\n"
    )
    suites = {
        "commands": commands,
        "hotel": hotel,
        "large": large,
        "largest": largest,
        "cover": cover_,
        "hops": hops_,
        "hop": hop_,
        "cost": cost_,
        "xds": xds_,
        "traces": traces_,
        "overhead": overhead_,
        "diff": diff_,
        "advise": advise_,
        "cluster": cluster_,
        "creation": creation_,
    }
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="admc-bench-") as folder:
        bench = Bench(console, Path(folder), options)
        for name in SUITES:
            if name not in (options.only or set(SUITES).difference(BY_NAME)):
                continue
            try:
                suites[name](bench)
            except SkippedError as error:
                if options.only is not None:
                    raise SystemExit(str(error)) from None
                console.print(Text(f"skipped: {error}", style="bold red"), soft_wrap=True)
    console.print(f"{time.monotonic() - started:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
