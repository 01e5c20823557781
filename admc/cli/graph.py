"""`admc graph`: a picture of the compiled mesh."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from admc.base.exits import wrong_usage
from admc.base.terminal import visible
from admc.cli.options import IncludeOption, ProgramArgument


class Picture(StrEnum):
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


SUFFIXES: Final = {".mmd": Picture.MERMAID, ".dot": Picture.DOT, ".svg": Picture.SVG}


def graph(
    program: ProgramArgument,
    include: IncludeOption = None,
    picture: Annotated[
        Picture | None,
        typer.Option("--format", help="The format of the picture on standard output; mermaid unless given."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write the picture to a file whose name ends in .mmd, .dot or .svg."
        ),
    ] = None,
) -> int:
    """Draw the application with its ADMs."""
    language = _language(picture, output)
    from admc.base.exits import Exit
    from admc.cli.output import Progress, write_out
    from admc.compile.pipeline import folder_of, load_program, place_program

    progress = Progress()
    try:
        loaded = load_program(program, include=include)
        placement, _seconds = place_program(loaded, folder_of(program), progress=progress)
    finally:
        progress.clear()
    from emitters import pictures

    draw = {Picture.MERMAID: pictures.mermaid, Picture.DOT: pictures.dot, Picture.SVG: pictures.svg}[language]
    drawn = draw(loaded, placement)
    if output is None:
        write_out(drawn if drawn.endswith("\n") else drawn + "\n")
    else:
        from admc.base.files import write_whole
        from admc.compile.pipeline import input_files

        changed = write_whole(output, drawn.encode("utf-8"), inputs=input_files(program, loaded))
        write_out(f"wrote `{visible(str(output))}`\n" if changed else f"`{visible(str(output))}` is up to date\n")
    return Exit.DONE


def _language(picture: Picture | None, output: Path | None) -> Picture:
    """The format, by the file's ending, or by `--format` if there is no file. Raises `CommandError`."""
    if output is None or output == Path("-"):  # `-` is refused where files are written
        return picture or Picture.MERMAID
    named = SUFFIXES.get(output.suffix.lower())
    wanted = next((suffix for suffix, language in SUFFIXES.items() if language is picture), None)
    if named is None:
        *others, last = (f"`{suffix}`" for suffix in SUFFIXES)
        known = f"{', '.join(others)} and {last} are possible"
        raise wrong_usage(
            "ADM801",
            f"`{output}` does not have the ending of a picture",
            hint=known if wanted is None or not output.stem else f"{known}; write `-o {output.with_suffix(wanted)}`",
        )
    if picture is not None and wanted is not None and named is not picture:
        raise wrong_usage(
            "ADM801",
            f"`--format {picture}` and `{output}` contradict each other",
            cause=f"a name that ends in `{output.suffix}` stands for `{named}`",
            hint=f"leave `--format` out, or write `-o {output.with_suffix(wanted)}`",
        )
    return named
