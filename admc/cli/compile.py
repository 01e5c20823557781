"""`admc compile`: from a program to its plan, and with `--emit` to the configuration that runs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from admc.base.exits import Exit, wrong_usage
from admc.base.findings.report import Format
from admc.base.terminal import command, counted, visible
from admc.cli.options import (
    AdmMode,
    EffortOption,
    FactsOption,
    FormatOption,
    IncludeOption,
    ProgramArgument,
    WarningsOption,
)
from admc.cli.xds_options import XdsOptions, server_of
from admc.compile.plan.beside import default_plan_path

if TYPE_CHECKING:
    from admc.compile.emit.folder import Emitted
    from admc.compile.pipeline import Compiled
    from admc.compile.plan.model import Plan
    from dsl.diagnostics.diagnostic import Diagnostic
    from emitters.envoy.bootstrap.xds_server import Server


def compile_(
    program: ProgramArgument,
    include: IncludeOption = None,
    facts: FactsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file of the plan; by default a file beside the program."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan; write no file unless -o is given.")] = False,
    emit: Annotated[
        Path | None,
        typer.Option("--emit", metavar="DIR", help="Write the configuration of every ADM into this folder."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Let --emit overwrite files that admc did not write or that were changed since."),
    ] = False,
    endpoints: Annotated[
        Path | None, typer.Option("--endpoints", metavar="FILE", help="Addresses of the services, for --emit.")
    ] = None,
    mode: Annotated[
        AdmMode | None,
        typer.Option(
            "--mode",
            help="How ADMs get traffic; unless given, redirect with --endpoints, and explicit listeners without.",
        ),
    ] = None,
    xds: Annotated[
        str | None,
        typer.Option(
            "--xds",
            metavar="HOST:PORT",
            help="The xDS server in bootstrap-xds.yaml; unless given, 127.0.0.1:18000, and with redirection "
            "admc.admc-system.svc.cluster.local:18000.",
        ),
    ] = None,
    xds_ca: Annotated[
        Path | None,
        typer.Option(
            "--xds-ca",
            metavar="FILE",
            help="Connect to it over TLS: its CA certificate, as a path on the ADM's machine.",
        ),
    ] = None,
    xds_name: Annotated[
        str | None,
        typer.Option("--xds-name", metavar="NAME", help="The name in its certificate; unless given, its host."),
    ] = None,
    xds_cert: Annotated[
        Path | None,
        typer.Option("--xds-cert", metavar="FILE", help="The client certificate of an ADM, as a path on its machine."),
    ] = None,
    xds_key: Annotated[
        Path | None,
        typer.Option(
            "--xds-key", metavar="FILE", help="The private key of that certificate, as a path on its machine."
        ),
    ] = None,
    xds_token: Annotated[
        Path | None,
        typer.Option("--xds-token", metavar="FILE", help="Instead, the token of an ADM, as a path on its machine."),
    ] = None,
    xds_files: Annotated[
        Path | None,
        typer.Option(
            "--xds-files",
            metavar="DIR",
            help="The folder of an ADM's xds-*.yaml on its machine; unless given, the emitted one.",
        ),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option("--previous", metavar="PLAN", help="Among equally good plans, choose the one nearest to this."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 unless the plan is the one that would be written.")
    ] = False,
    effort: EffortOption = None,
    require_optimal: Annotated[
        bool, typer.Option("--require-optimal", help="Exit 5 and write nothing unless the optimum is proven.")
    ] = False,
    warnings_as_errors: WarningsOption = False,
    format_: FormatOption = Format.TEXT,
) -> int:
    """Compile a program into the smallest correct set of ADMs."""
    _check_options(json, format_, emit, endpoints, mode, force=force)
    _check_output(program, output, json)
    server = server_of(emit, XdsOptions(xds, xds_ca, xds_name, xds_cert, xds_key, xds_token, xds_files))
    if check:
        _check_alone(json=json, emit=emit, previous=previous)
        from admc.cli.compile_check import Checked, check_plan

        checked = Checked(program, output, include, facts, effort, require_optimal, warnings_as_errors)
        return check_plan(checked, format_)
    from admc.cli.output import Progress
    from admc.compile.facts import read_facts
    from admc.compile.pipeline import compile_program, folder_of, input_files, refuse_warnings
    from admc.compile.plan.to_json import to_json
    from admc.compile.proof import earlier_plan
    from admc.compile.proof import require_optimal as prove

    progress = Progress()
    try:
        earlier = None if previous is None else _previous(previous)
        compiled = compile_program(
            program,
            include=include,
            facts=None if facts is None else read_facts(facts),
            previous=earlier_plan(earlier, must_be_optimal=require_optimal),
            effort=effort,
            progress=progress,
            warnings_as_errors=warnings_as_errors,
        )
        if require_optimal:
            prove(compiled, folder_of(program))
        files = None if emit is None else _configuration(compiled, folder_of(program), endpoints, mode, server)
        inputs = (*input_files(program, compiled.program), *(() if facts is None else (facts,)))
        if warnings_as_errors:
            kept = () if emit is None or files is None else _kept(emit, files, inputs, force=force)
            refuse_warnings([*_other_app(earlier, compiled), *kept], folder_of(program))
        progress("writing")
        content = to_json(compiled.plan)
        target = output or (None if json else default_plan_path(program))
        if target is not None:
            _check_target(target, inputs, emit, files)
        emitted = None if emit is None or files is None else _write_folder(emit, files, inputs, force=force)
        changed = target is not None and _write_plan(target, content, inputs)
    finally:
        progress.clear()
    if json:
        from admc.cli.output import write_out

        write_out(content.decode("ascii"))
        return Exit.DONE
    notes = _notes(program, target, changed, emit, emitted, endpoints)
    if server is not None and server.tls is not None and server.tls.folder is None:
        notes.append(
            "ADMs read `xds-*.yaml` from this folder; if they are moved, name the new folder with `--xds-files DIR`"
        )
    diagnostics = [
        *compiled.program.warnings,
        *compiled.program.notes,
        *_other_app(earlier, compiled),
        *(emitted.warnings if emitted else ()),
    ]
    _show(compiled, folder_of(program), notes, diagnostics, target, format_)
    return Exit.DONE


_FORMATS: Final = ("yaml", "yml", "json", "text", "wide", "name", "markdown", "sarif", "github", "junit", "table")
"""Values of `-o` in other tools."""


def _check_output(program: Path, output: Path | None, json: bool) -> None:
    from admc.compile.programs import STANDARD_INPUT

    if output is not None and str(output).lower() in _FORMATS:
        raise wrong_usage(
            "ADM801",
            f"`-o` names the file of the plan, and `{visible(str(output))}` is the name of a format",
            hint="`--json` writes the plan to standard output, `--emit DIR` the configuration as YAML, and `--format` "
            f"chooses the form of messages; for a file of this name write `-o ./{visible(str(output))}`",
        )
    if str(program) == STANDARD_INPUT and output is None and not json:
        raise wrong_usage(
            "ADM801",
            "a program from standard input has no folder for its plan",
            hint="say where the plan goes: `-o FILE`, or `--json` for standard output",
        )


def _check_options(
    json: bool,
    format_: Format,
    emit: Path | None,
    endpoints: Path | None,
    mode: AdmMode | None,
    *,
    force: bool,
) -> None:
    if json and format_ not in (Format.TEXT, Format.JSON):
        raise wrong_usage(
            "ADM801",
            f"`--json` and `--format {format_}` both want standard output",
            hint="write the plan with `-o FILE` and keep `--format`",
        )
    if emit is None:
        for option, given in (("--endpoints", endpoints), ("--mode", mode), ("--force", force or None)):
            if given is not None:
                raise wrong_usage("ADM801", f"`{option}` needs `--emit DIR`")
    if mode is AdmMode.REDIRECT and endpoints is None:
        raise wrong_usage(
            "ADM801",
            "`--mode redirect` needs the addresses of the services",
            hint="give them with `--endpoints FILE`",
        )


def _check_alone(*, json: bool, emit: Path | None, previous: Path | None) -> None:
    for option, given in (("--json", json), ("--emit", emit is not None), ("--previous", previous is not None)):
        if given:
            raise wrong_usage(
                "ADM801",
                f"`--check` and `{option}` exclude each other",
                cause="it writes nothing, and compares with the plan beside the program",
                hint="name another plan with `-o FILE`",
            )


def _previous(path: Path) -> Plan:
    from admc.compile.plan.read import read_plan

    return read_plan(path)


def _configuration(
    compiled: Compiled, folder: str, endpoints: Path | None, mode: AdmMode | None, server: Server | None
) -> dict[str, bytes]:
    """The files that `--emit` writes. Raises `CommandError`: exit 3 if Envoy cannot express the placement."""
    from admc.compile.emit.emission import configuration

    redirect = mode is AdmMode.REDIRECT or (mode is None and endpoints is not None)
    return configuration(compiled.program, compiled.placement, folder, endpoints, redirect=redirect, xds=server)


def _kept(folder: Path, files: dict[str, bytes], inputs: tuple[Path, ...], *, force: bool) -> tuple[Diagnostic, ...]:
    from admc.compile.emit.folder import kept_files

    return kept_files(folder, files, inputs, force=force)


def _check_target(target: Path, inputs: tuple[Path, ...], emit: Path | None, files: dict[str, bytes] | None) -> None:
    """Check that the plan can be written, before the configuration is written. Raises `CommandError`."""
    from admc.base.files import check_folder, status_to_replace
    from admc.compile.emit.folder import MANIFEST

    status_to_replace(target, inputs)
    where = Path(os.path.realpath(target))
    folder = None if emit is None else Path(os.path.realpath(emit))
    if folder is None or not where.is_relative_to(folder):
        check_folder(target)
    elif where.relative_to(folder).as_posix() in {*(files or ()), MANIFEST}:
        raise wrong_usage(
            "ADM801",
            f"`-o {target}` and `--emit {emit}` both write `{target}`",
            hint="give the plan a name of its own",
        )


def _write_folder(folder: Path, files: dict[str, bytes], inputs: tuple[Path, ...], *, force: bool) -> Emitted:
    from admc.compile.emit.folder import write_folder

    return write_folder(folder, files, inputs, force=force)


def _write_plan(target: Path, content: bytes, inputs: tuple[Path, ...]) -> bool:
    from admc.base.files import write_whole

    return write_whole(target, content, inputs=inputs)


def _other_app(earlier: Plan | None, compiled: Compiled) -> list[Diagnostic]:
    from dsl.diagnostics.diagnostic import Diagnostic, Severity

    if earlier is None or earlier.app == compiled.program.app:
        return []
    return [
        Diagnostic(
            "ADM811",
            Severity.WARNING,
            f"the previous plan is of `{earlier.app}`, and this program is `{compiled.program.app}`",
            None,
            hint="leave `--previous` away unless the application was renamed",
        )
    ]


def _notes(
    program: Path,
    target: Path | None,
    changed: bool,
    emit: Path | None,
    emitted: Emitted | None,
    endpoints: Path | None,
) -> list[str]:
    notes = []
    if target is not None:
        notes.append(f"wrote `{target}`" if changed else f"`{target}` is up to date")
    if emit is not None and emitted is not None:
        removed = f", {emitted.removed} removed" if emitted.removed else ""
        written = counted(emitted.written, "file")
        notes.append(f"configuration in `{emit}`: {written} written, {emitted.unchanged} unchanged{removed}")
        if endpoints is None:
            notes.append(
                "without `--endpoints` it uses loopback addresses and explicit listeners, to try out on one machine"
            )
    if str(program) == "-":
        return notes
    notes.append(f"why each ADM is there: `{command('explain', program)}`")
    if emit is None:
        notes.append(f"its configuration: `{command('compile', program, '--emit', 'DIR')}`")
    return notes


def _show(
    compiled: Compiled,
    folder: str,
    notes: list[str],
    diagnostics: list[Diagnostic],
    target: Path | None,
    format_: Format,
) -> None:
    from admc.base.findings.report import Report
    from admc.cli.output import show_report, write_out
    from admc.compile.plan.summary import facts, summarize

    summary = summarize(compiled.program, compiled.plan)
    # The summary shows the program's own warnings, which are in the plan. Its notes are not.
    own = tuple(item for item in diagnostics if item not in compiled.program.warnings)
    if format_ is Format.TEXT:
        import sys

        from admc.base.terminal import takes_colour, width
        from admc.compile.plan import summary_text

        show_report(Report(own, Exit.DONE, folder), Format.TEXT)
        write_out(summary_text.render(summary, folder, notes, colour=takes_colour(sys.stdout), width=width(sys.stdout)))
    elif format_ is Format.MARKDOWN:
        from admc.compile.plan import summary_markdown

        findings = [f"{item.severity} {item.code}: {item.message}" for item in own]
        write_out(summary_markdown.render(summary, folder, [*findings, *notes]))
    else:
        numbers = {**facts(summary), "plan": None if target is None else target.as_posix()}
        show_report(Report(tuple(diagnostics), Exit.DONE, folder, numbers), format_)
