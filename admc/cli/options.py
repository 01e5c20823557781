"""Options that several commands share, with one meaning and one help text."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from admc.base.exits import wrong_usage
from admc.base.files import is_folder, present
from admc.base.findings.report import Format
from admc.base.terminal import visible
from admc.cli.suggestions import programs

ProgramArgument = Annotated[
    Path, typer.Argument(metavar="PROGRAM", help="The program, such as policies.adm.", autocompletion=programs)
]
ProgramsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="PROGRAM...",
        help="Programs, or folders that contain programs; `-` is standard input.",
        autocompletion=programs,
    ),
]
WarningsOption = Annotated[
    bool, typer.Option("--warnings-as-errors", help="Exit 1, and write nothing, if there is a warning.")
]


def _folders(given: list[Path] | None) -> list[Path] | None:
    """Check that `--include` names folders. Raises `CommandError`."""
    for folder in given or ():
        if not is_folder(folder):
            raise wrong_usage(
                "ADM826",
                f"`--include {visible(str(folder))}` names no folder",
                cause="it is a file" if present(folder) else "it does not exist",
                hint="name the folder that the files are in; the path is relative to the working directory",
            )
    return given


IncludeOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--include",
        metavar="DIR",
        callback=_folders,
        help="A folder, besides the program's own, from which the program may use files; repeatable.",
    ),
]
FactsOption = Annotated[
    Path | None,
    typer.Option(
        "--facts",
        metavar="FILE",
        help="What a cluster shows of the services: one more input of the plan, as for a server that follows it.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="The format of the report.")]

OPS: Final = "127.0.0.1:18001"
"""The default address of a server's HTTP endpoints."""


class AdmMode(StrEnum):
    """The same values as `emitters.envoy.Mode`, whose module takes long to load."""

    REDIRECT = "redirect"
    EXPLICIT = "explicit"


def _effort(given: float | None) -> float | None:
    if given is not None and not 0 < given < float("inf"):
        raise wrong_usage("ADM801", "`--effort` must be a number above 0")
    return given


EffortOption = Annotated[
    float | None,
    typer.Option(
        "--effort",
        metavar="NUMBER",
        callback=_effort,
        help="The solver's limit in deterministic time; 4 unless given. 1 is 1 to 4 seconds of one core.",
    ),
]


def requested_format(arguments: list[str]) -> Format:
    """The report format of a command line. Errors in the other arguments are reported in this format."""
    requested = Format.TEXT
    for index, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--json":
            return Format.JSON
        name, separator, value = argument.partition("=")
        if name == "--format":
            word = value if separator else "".join(arguments[index + 1 : index + 2])
            if word in {known.value for known in Format}:
                requested = Format(word)
    return requested
