"""`admc graph`: a picture of the compiled mesh."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from admc.cli.options import IncludeOption, ProgramArgument


class Picture(StrEnum):
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


def graph(
    program: ProgramArgument,
    include: IncludeOption = None,
    picture: Annotated[Picture, typer.Option("--format", help="The language of the picture.")] = Picture.MERMAID,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it there, not to standard output.")
    ] = None,
) -> int:
    """Draw the application with its ADMs."""
    from admc.exits import Exit
    from admc.output import Progress, write_out
    from admc.pipeline import folder_of, load_program, place_program

    progress = Progress()
    try:
        loaded = load_program(program, include=include)
        placement, _seconds = place_program(loaded, folder_of(program), progress=progress)
    finally:
        progress.clear()
    from emitters import pictures

    draw = {Picture.MERMAID: pictures.mermaid, Picture.DOT: pictures.dot, Picture.SVG: pictures.svg}[picture]
    drawn = draw(loaded, placement)
    if output is None:
        write_out(drawn if drawn.endswith("\n") else drawn + "\n")
    else:
        from admc.files import write_whole
        from admc.pipeline import input_files

        write_whole(output, drawn.encode("utf-8"), inputs=input_files(program, loaded))
    return Exit.DONE
