"""`admc profile`: the profiles by which costs are estimated."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from admc.base.exits import CommandError, Exit
from admc.cli.options import IncludeOption
from admc.cli.parser import Command, CommandGroup

if TYPE_CHECKING:
    from admc.cost.profiles.new_profile import NewProfile
    from admc.cost.profiles.source import NamedProfile


class ProfileFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[ProfileFormat, typer.Option("--format", help="The format of the output.")]
NamedArgument = Annotated[
    str, typer.Argument(metavar="PROFILE", help="The file of a profile, or the name of a built-in one.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the profile to a file, not to the terminal."),
]

app = typer.Typer(
    name="profile",
    cls=CommandGroup,
    rich_markup_mode=None,
    help="Show, check, compare and make profiles: measured costs of proxy components.",
)


@app.command("list", cls=Command)
def list_(format_: FormatOption = ProfileFormat.TEXT) -> int:
    """List the profiles that admc brings."""
    from admc.cost.profiles.source import built_in, built_in_names

    profiles = [built_in(name) for name in built_in_names()]
    if format_ is ProfileFormat.JSON:
        from admc.cost.profiles import json as profile_json

        return _print(profile_json.listed(profiles))
    from admc.cost.profiles import text as profile_text

    return _print(profile_text.listed(profiles))


@app.command("show", cls=Command)
def show(profile: NamedArgument, format_: FormatOption = ProfileFormat.TEXT) -> int:
    """Show the figures of a profile."""
    from admc.cost.profiles.source import named_profile

    named = named_profile(profile)
    if format_ is ProfileFormat.JSON:
        from admc.cost.profiles import json as profile_json

        return _print(profile_json.described(named))
    from admc.cost.profiles import text as profile_text

    return _print(profile_text.described(named))


@app.command("validate", cls=Command)
def validate(
    profiles: Annotated[list[str], typer.Argument(metavar="PROFILE...", help="Files of profiles.")],
    format_: FormatOption = ProfileFormat.TEXT,
) -> int:
    """Check profiles; report all their errors."""
    from admc.cost.profiles.source import named_profile

    valid: list[NamedProfile] = []
    errors: list[CommandError] = []
    for name in dict.fromkeys(profiles):
        try:
            valid.append(named_profile(name))
        except CommandError as error:
            errors.append(error)
    if errors:
        raise CommandError(Exit.INPUT, [item for error in errors for item in error.diagnostics])
    if format_ is ProfileFormat.JSON:
        from admc.cost.profiles import json as profile_json

        return _print(profile_json.validated(valid))
    from admc.cost.profiles import text as profile_text

    return _print("".join(profile_text.validated(named) for named in valid))


@app.command("diff", cls=Command)
def diff(one: NamedArgument, other: NamedArgument, format_: FormatOption = ProfileFormat.TEXT) -> int:
    """Compare two profiles: totals, and parts of equal name."""
    from admc.cost.profiles.diff import difference
    from admc.cost.profiles.source import named_profile

    differences = difference(named_profile(one).profile, named_profile(other).profile)
    if format_ is ProfileFormat.JSON:
        from admc.cost.profiles import json as profile_json

        return _print(profile_json.compared(differences))
    from admc.cost.profiles import text as profile_text

    return _print(profile_text.compared(differences))


@app.command("import", cls=Command)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A profile of MeshInsight's tool: its pickle.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the profile.")] = "imported",
    platform: Annotated[
        str | None,
        typer.Option("--platform", metavar="TEXT", help="A part of the platform's name, if the file has several."),
    ] = None,
    output: OutputOption = None,
    format_: FormatOption = ProfileFormat.TEXT,
) -> int:
    """Import the latencies of MeshInsight's pickle. Nothing in the file is executed."""
    from admc.cost.profile_import.making import imported

    return _made(imported(file, name, platform), output, format_, (file,))


@app.command("fit", cls=Command)
def fit(
    file: Annotated[Path, typer.Argument(metavar="RUNS", help="A CSV file with a line for each run.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the profile.")],
    machine: Annotated[str, typer.Option("--machine", metavar="TEXT", help="The machine of the runs.")],
    system: Annotated[str, typer.Option("--system", metavar="TEXT", help="The system of the runs.")],
    proxy: Annotated[str, typer.Option("--proxy", metavar="TEXT", help="The proxy and its version: `envoy 1.40`.")],
    saturation: Annotated[
        str,
        typer.Option("--saturation", metavar="CORES", help="Most cores of one sidecar up to which the figures hold."),
    ] = "0.7",
    output: OutputOption = None,
    format_: FormatOption = ProfileFormat.TEXT,
) -> int:
    """Make a profile from the runs of a measurement."""
    from admc.cost.profile_import.making import fitted

    return _made(fitted(file, name, machine, system, proxy, saturation), output, format_, (file,))


@app.command("measure", cls=Command)
def measure(
    program: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PROGRAM]", help="Measure what this program uses; without it, every built-in component."
        ),
    ] = None,
    output: OutputOption = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", metavar="MINUTES", help="When it ends: after 30 minutes unless given, and a first whole turn."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer sizes and rates, for one program, in about two minutes.")
    ] = False,
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FILE.csv", help="Write the raw runs, too, for `admc profile fit`.")
    ] = None,
    include: IncludeOption = None,
    format_: FormatOption = ProfileFormat.TEXT,
) -> int:
    """Measure a profile of this machine, with a real Envoy.

    Starts an Envoy with the configuration that admc emits, and load and services around it. Needs Linux, Envoy and Go.
    Connections are redirected in network namespaces of their own where the machine allows that. Other work on the
    machine falsifies the figures.

    The Envoy runs with your rights, and executes what the program brings: filter templates, Lua scripts, Wasm modules.
    """
    from admc.base.files import write_whole
    from admc.cli.output import Progress
    from admc.compile.pipeline import load_program
    from admc.cost.measurement.measured import budget_minutes, check_output, measured, name_of

    minutes = budget_minutes(budget, quick=quick)
    inputs = () if program is None else (program,)
    for path in (output, runs):
        check_output(path, inputs)
    progress = Progress()
    try:
        loaded = None if program is None else load_program(program, include=include)
        measurement = measured(loaded, name_of(output), minutes, quick=quick, progress=progress)
    finally:
        progress.clear()
    if runs is not None:
        write_whole(runs, measurement.table.encode("utf-8"), inputs=inputs)
    code = _made(measurement.made, output, format_, inputs)
    return Exit.INTERRUPTED if measurement.interrupted else code


def _made(made: NewProfile, output: Path | None, format_: ProfileFormat, inputs: tuple[Path, ...]) -> int:
    """Print a new profile, or write it to a file; notes about it go to standard error, or into the JSON document."""
    from admc.cli.output import write_error
    from admc.cost.profiles.write import to_json

    if output is not None:
        from admc.base.files import write_whole

        write_whole(output, to_json(made.profile).encode("utf-8"), inputs=inputs)
    if format_ is ProfileFormat.JSON:
        from admc.cost.profiles import json as profile_json

        return _print(profile_json.made(made, output))
    from admc.cost.profiles import text as profile_text

    if output is None:
        write_error(profile_text.notes(made))
        return _print(to_json(made.profile))
    return _print(profile_text.made(made, output))


def _print(text: str) -> int:
    from admc.cli.output import write_out

    write_out(text)
    return Exit.DONE
