"""One trial of a compiled program: it starts all processes, sends requests, judges the answers, and ends all processes.

program, placement -> bounds -> Testbed -> rows of calls and policies -> Trial
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.testbed.findings import ExhaustedError, ProbeOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from admc.testbed.trial import CallRow, PolicyRow
    from dsl.program import Program
    from solver.placement import Placement

Row = TypeVar("Row")

_CANNOT: Final = "the program cannot be tried"
MAX_SERVICES: Final = 100
MAX_PORTS: Final = 300
MAX_CALLS: Final = 1000
MAX_ADMS: Final = 30
"""An Envoy takes about 60 MB and half a second of CPU to start."""


@dataclass(frozen=True)
class Trial:
    """A program and a placement, and the findings about their calls and policies. `seconds` is the duration."""

    program: Program
    placement: Placement
    envoy: str
    """The version of the Envoys."""
    calls: tuple[CallRow, ...]
    policies: tuple[PolicyRow, ...]
    seconds: float
    moved_ports: Mapping[int, int] = field(default_factory=dict)
    """Ports that are taken or need privileges, and the ports that were tried instead."""

    @property
    def rows(self) -> tuple[CallRow | PolicyRow, ...]:
        return (*self.calls, *self.policies)

    @property
    def outcomes(self) -> Counter[ProbeOutcome]:
        """The number of rows of policies with each outcome."""
        return Counter(row.finding.outcome for row in self.policies)

    @property
    def answered(self) -> int:
        """The number of calls that had the declared result."""
        return sum(row.finding.outcome is ProbeOutcome.ENFORCED for row in self.calls)

    @property
    def wrong(self) -> int:
        """The number of rows whose observed result is not the declared one."""
        return sum(row.finding.outcome is ProbeOutcome.NOT_ENFORCED for row in self.rows)

    @property
    def not_tried(self) -> int:
        return sum(row.finding.outcome is ProbeOutcome.NOT_TRIED for row in self.rows)


def check_size(program: Program) -> None:
    """Raise `CommandError` (exit code 1) for a program that is too large for one machine."""
    ports = sum(len(service.ports) for service in program.services.values())
    ports += sum(len(external.ports) for external in program.externals.values())
    for number, most, what in (
        (len(program.services), MAX_SERVICES, "services"),
        (ports, MAX_PORTS, "ports"),
        (len(program.calls), MAX_CALLS, "calls"),
    ):
        if number > most:
            raise _too_large(program, f"{number:,} {what}", f"{most:,} {what}")


def _too_large(program: Program, size: str, most: str) -> CommandError:
    return wrong_usage(
        "ADM829",
        f"`{program.app}` has {size}, and at most {most} can be tried on one machine",
        hint="try a smaller program with the same policies",
    )


def run(
    program: Program,
    placement: Placement,
    envoy: tuple[str, str],
    *,
    seconds: float,
    progress: Callable[[str], None],
) -> Trial:
    """Try a verified placement on real Envoys (path and version). Raises `CommandError` and `KeyboardInterrupt`.

    When this function returns or raises, all processes have ended and the temporary folder is gone. It sets signal
    handlers, so it must run in the main thread.
    """
    from admc.testbed import trial
    from admc.testbed.echo import TakenError
    from admc.testbed.envoys import EnvoyError
    from admc.testbed.places import NoPlaceError, place
    from admc.testbed.testbed import Testbed
    from emitters.errors import EmitError

    if len(placement.adms) > MAX_ADMS:
        raise _too_large(program, f"{len(placement.adms)} ADMs in its plan", f"{MAX_ADMS} ADMs")
    started = time.monotonic()
    try:
        with (
            _interrupted_by_signals(),
            tempfile.TemporaryDirectory(prefix="admc-try-") as folder,
            place(program, placement, Path(folder)) as layout,
        ):
            progress(f"starting {len(placement.adms)} Envoys and {len(layout.endpoints)} echo services")
            with Testbed(layout, envoy[0], until=started + seconds) as bed:
                calls = _listed(trial.calls(bed, placement), len(program.calls), "call", progress)
                policies = _listed(trial.policies(bed, placement), None, "policy", progress)
                bed.check(closely=True)
    except EmitError as error:
        raise CommandError(Exit.NO_PLACEMENT, error.diagnostics) from error
    except ExhaustedError as error:
        cause = f"this machine has no port or file descriptor left: {error}"
        raise wrong_usage("ADM828", _CANNOT, cause=cause, hint="try again in a minute, or raise `ulimit -n`") from error
    except (EnvoyError, NoPlaceError, TakenError, OSError) as error:
        raise wrong_usage("ADM828", _CANNOT, cause=str(error)) from error
    return Trial(program, placement, envoy[1], calls, policies, time.monotonic() - started)


def _listed(rows: Iterator[Row], total: int | None, what: str, progress: Callable[[str], None]) -> tuple[Row, ...]:
    tried: list[Row] = []
    progress(f"trying {what} 1" + (f" of {total}" if total else ""))
    for row in rows:
        tried.append(row)
        if len(tried) != total:
            progress(f"trying {what} {len(tried) + 1}" + (f" of {total}" if total else ""))
    return tuple(tried)


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does. After the first signal the process ignores all three, so that
    none interrupts the clean-up before the process ends."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {number: signal.getsignal(number) for number in numbers}
    ctrl_c = before[signal.SIGINT]

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def interrupt(number: int, frame: FrameType | None) -> None:
        for signal_number in numbers:
            signal.signal(signal_number, signal.SIG_IGN)
        if callable(ctrl_c):
            ctrl_c(number, frame)
        raise KeyboardInterrupt

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    except Exception:
        restore()
        raise
    restore()
