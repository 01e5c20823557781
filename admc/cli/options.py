"""Options that several commands share, so that they mean and read the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from admc.cli.suggestions import programs
from admc.exits import wrong_usage
from admc.files import is_folder, present
from admc.render.report import Format
from admc.terminal import visible

ProgramArgument = Annotated[
    Path, typer.Argument(metavar="PROGRAM", help="The program, such as policies.adm.", autocompletion=programs)
]
ProgramsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="PROGRAM...",
        help="Programs, or folders with programs below; `-` is standard input.",
        autocompletion=programs,
    ),
]
WarningsOption = Annotated[
    bool, typer.Option("--warnings-as-errors", help="Exit 1, and write nothing, if there is a warning.")
]


def _folders(given: list[Path] | None) -> list[Path] | None:
    """What `--include` names: folders, now. Raises `CommandError`."""
    for folder in given or ():
        if not is_folder(folder):
            raise wrong_usage(
                "ADM826",
                f"`--include {visible(str(folder))}` names no folder",
                cause="there is a file of that name" if present(folder) else "there is nothing of that name",
                hint="name the folder that the files are in; the path is relative to the working directory",
            )
    return given


IncludeOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--include",
        metavar="DIR",
        callback=_folders,
        help="Files that the program names may be there or below, besides its own folder; repeatable.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How the outcome is reported.")]

OPS: Final = "127.0.0.1:18001"
"""Where a server says how it is, unless told otherwise, and where it is asked."""


class AdmMode(StrEnum):
    """`emitters.envoy.Mode`, which takes too long to load for a look at the options."""

    REDIRECT = "redirect"
    EXPLICIT = "explicit"


EffortOption = Annotated[
    float | None,
    typer.Option(
        "--effort",
        metavar="NUMBER",
        help="How long the solver may try, in deterministic time: 4 unless given; 1 is 1 to 4 seconds of one core.",
    ),
]


def requested_format(arguments: list[str]) -> Format:
    """The format that a command line asks for, also when it could not be parsed: its error is reported in it."""
    asked = Format.TEXT
    for index, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--json":
            return Format.JSON
        name, separator, value = argument.partition("=")
        if name == "--format":
            word = value if separator else "".join(arguments[index + 1 : index + 2])
            if word in {known.value for known in Format}:
                asked = Format(word)
    return asked
