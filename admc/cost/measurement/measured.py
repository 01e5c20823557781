"""Runs `admc profile measure`.

Program or prelude, budget -> [measured] -> tools, a measurement (child, session) -> Measurement: profile and table
"""

from __future__ import annotations

import os
import platform
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.files import check_folder, status_to_replace
from admc.cost.measurement import design, programs, uses
from admc.cost.measurement.bed import Tools
from admc.cost.measurement.child import FailedError, row_of, started
from admc.cost.measurement.session import Task, run
from admc.cost.measurement.stolen import Ticks, disturbance
from admc.cost.measurement.table import Row, table
from admc.cost.profile_import.fit import fit
from admc.cost.profile_import.making import checked
from admc.cost.profile_import.runs import read_runs
from admc.cost.profiles.new_profile import NewProfile
from admc.cost.profiles.profile import Figure, Method, Platform, Profile, Proxy
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity
from dsl.program import Program, Protocol
from dsl.text import SourceText

QUICK_MINUTES: Final = 1.7
"""The whole command then takes less than two minutes."""
MINUTES: Final = 30.0
_MOST_MINUTES: Final = 1440
_SHOWN: Final = 3
"""Most notes in the message that nothing was measured."""
_ELSEWHERE: Final = "nothing was measured; name another place"


@dataclass
class MeasurementLog:
    """The messages of a measurement so far."""

    rows: list[Row] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(frozen=True)
class Measurement:
    made: NewProfile
    table: str
    """The raw runs as CSV."""
    interrupted: bool


def budget_minutes(given: float | None, *, quick: bool) -> float:
    """Raises `CommandError`."""
    if given is not None and not 0 < given <= _MOST_MINUTES:  # NaN is refused, too
        raise wrong_usage(
            "ADM899",
            f"`--budget` is between 0 and {_MOST_MINUTES:,} minutes, and not {given:g}",
            hint="write `--budget 30`",
        )
    usual = QUICK_MINUTES if quick else MINUTES
    return usual if given is None else given


def check_output(path: Path | None, inputs: tuple[Path, ...]) -> None:
    """Before the measurement, refuse an output file that cannot be written. Raises `CommandError`."""
    if path is None:
        return
    check_folder(path)
    status_to_replace(path, inputs)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise wrong_usage("ADM803", f"cannot write `{path}`", cause="its folder cannot be written", hint=_ELSEWHERE)


def name_of(output: Path | None) -> str:
    """The name of a profile: the name of its file, with `-` for each character that a name must not have, and without
    those with which no name begins."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", "" if output is None else output.stem).lstrip(".-")
    return name[:100] or "measured"


def measured(
    program: Program | None, name: str, minutes: float, *, quick: bool, progress: Callable[[str], None]
) -> Measurement:
    """Raises `CommandError`: exit 1 if nothing can be measured, 130 if an interrupt comes before the first hop. After a
    later interrupt the profile is that of the rows so far. An interrupt of the build of the load is raised as it is."""
    if sys.platform != "linux":
        raise wrong_usage("ADM896", "nothing can be measured: CPU times are taken from the files of Linux's kernel")
    envoy, version = programs.envoy()
    chosen = uses.Uses(uses.of_prelude(), ()) if program is None else uses.of_program(program)
    with _interrupts(), tempfile.TemporaryDirectory(prefix="admc-measure-") as folder:
        progress("building the load")
        app = programs.app()
        task = Task(
            chosen.measurable,
            uses.cheapest(),
            _protocols(program, quick=quick),
            design.QUICK if quick else design.FULL,
            minutes * 60,
            Tools(envoy, app),
            Path(folder),
        )
        log = _run(task, progress)
    for note in chosen.left_out:
        log.notes[note] = None
    progress("making the profile")
    return _made(log, name, version, chosen.measurable, None if program is None else program.app, quick=quick)


def _protocols(program: Program | None, *, quick: bool) -> tuple[Protocol, ...]:
    if program is None or not quick:
        return tuple(Protocol)
    used = {call.port.protocol for call in program.calls}
    return tuple(protocol for protocol in Protocol if protocol in used) or tuple(Protocol)


def _run(task: Task, progress: Callable[[str], None]) -> MeasurementLog:
    log = MeasurementLog()
    before = Ticks.now()
    takers: Mapping[str, Callable[[Any], None]] = {
        "progress": progress,
        "row": lambda content: log.rows.append(row_of(content)),
        "note": log.notes.setdefault,
        "fact": lambda pair: log.facts.__setitem__(*pair),
        "end": lambda _: None,
    }
    try:
        with started(partial(run, task)) as messages:
            for subject, content in messages:
                takers[subject](content)
    except KeyboardInterrupt:
        log.interrupted = True
        log.notes["the measurement was interrupted: all figures are of the turns before"] = None
    except FailedError as error:
        raise wrong_usage(
            "ADM897", f"the measurement ended: {error}", hint="nothing was written; end other runs and try again"
        ) from error
    if (note := disturbance(Ticks.now().share_since(before))) is not None:
        log.notes[note] = None
    return log


@contextmanager
def _interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block like a Ctrl-C, and a second signal does not interrupt the clean-up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for signal_number in numbers:
            signal.signal(signal_number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _made(
    log: MeasurementLog,
    name: str,
    version: str,
    measured_uses: Sequence[uses.Use],
    app: str | None,
    *,
    quick: bool = False,
) -> Measurement:
    text = table(log.rows)
    diagnostics = Diagnostics()
    read = read_runs(SourceText("runs.csv", text), diagnostics) or ()
    platform_, proxy = Platform(_machine(), _system()), Proxy("envoy", version)
    result = fit(read, name, platform_, proxy, _saturation(log.rows))
    if not result.profile.hops:
        code = Exit.INTERRUPTED if log.interrupted else Exit.INPUT
        raise CommandError(
            code,
            [
                Diagnostic(
                    "ADM898",
                    Severity.ERROR,
                    "no hop was measured, so there is no profile",
                    None,
                    cause="; ".join([*log.notes][:_SHOWN]) or None,
                    hint=_advice(interrupted=log.interrupted, quick=quick),
                )
            ],
        )
    profile = _described(result.profile, log, measured_uses, app)
    notes = (*log.notes, *result.notes)
    return Measurement(checked(Path("the measurement"), NewProfile(profile, notes)), text, log.interrupted)


def _advice(*, interrupted: bool, quick: bool) -> str:
    """The hint if no hop was measured."""
    if not interrupted:
        return "nothing was written; end other work on this machine, and try again"
    if quick:
        return "nothing was written; let it run: the first hops are measured after a minute, or two on a busy machine"
    return "nothing was written; let it run: a first turn takes some minutes, and less with `--quick`"


def _described(profile: Profile, log: MeasurementLog, measured_uses: Sequence[uses.Use], app: str | None) -> Profile:
    """The profile with the facts for which a table of runs has no column."""
    floors = {(use.protocol, use.key.name, use.key.kind, use.key.arguments) for use in measured_uses if use.floor}
    memory = log.facts.get("memory", {})
    per = {
        f"memory_{what}": Figure(Decimal(memory[what]), None)
        for what in ("hop", "policy", "connection")
        if what in memory
    }
    return replace(
        profile,
        source=f"measured by admc for {'the built-in kinds' if app is None else f'the program {app}'}",
        method=Method("median", _method(log.facts)),
        sidecar=replace(profile.sidecar, **per),
        components=tuple(
            replace(cost, floor=(cost.protocol, cost.component, cost.kind, cost.choices) in floors)
            for cost in profile.components
        ),
    )


def _method(facts: Mapping[str, Any]) -> str:
    way = (
        "redirected by the emitted rules, in networks of their own"
        if facts.get("mode") == "redirect"
        else "dialled at explicit addresses, not redirected"
    )
    highest = ", ".join(
        f"{protocol} {ceiling[0]:g}/s ({ceiling[1]})"
        for protocol in Protocol
        if (ceiling := facts.get(f"ceiling_{protocol}")) is not None
    )
    return (
        f"connections {way}; open loop, latencies from the intended time of sending; {facts.get('turns', 0)} complete "
        "turns of slices of about a second; requests through a bare hop and past it alternate up to "
        f"{design.ALTERNATE_RATE:g}/s; differences within a turn, medians over the calmest turns, intervals of 90% "
        "over all turns by order statistics; components drawn together over rates, as parts of the hop; CPU of all "
        "threads of the proxy from schedstat, "
        f"{_parts(facts)}; memory is PSS; highest rates: "
        f"{highest or 'none'}"
    )


def _parts(facts: Mapping[str, Any]) -> str:
    stacks = facts.get("stacks", 0)
    if not stacks:
        return "all parts together"
    return f"shared by the parts as {stacks:,} stacks are that were sampled in slices of their own"


def _saturation(rows: Sequence[Row]) -> Decimal:
    """The largest load of a sidecar that was measured, in cores, and at most `WORKER_SHARE`."""
    most = max((row.cores or 0.0 for row in rows), default=0.0)
    return Decimal(f"{max(0.01, min(design.WORKER_SHARE, most)):.2f}")


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        model = None
    return f"{model[1].strip() if model else platform.machine()}, {cores} core{'s' if cores != 1 else ''}"


def _system() -> str:
    return f"Linux {platform.release().split('-')[0]}"
