"""`admc import`: makes statements of the language from other files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from admc.base.exits import Exit
from admc.cli.options import IncludeOption
from admc.cli.parser import Command, CommandGroup
from admc.cli.trace_options import NamesOption, PartialOption, SampledOption, share

app = typer.Typer(
    name="import",
    cls=CommandGroup,
    rich_markup_mode=None,
    help="Make statements of the language from other files.",
)


@app.callback()
def _about() -> None:
    """Make statements of the language from other files."""


@app.command("traces", cls=Command)
def traces(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Traces: OpenTelemetry or Jaeger JSON, CSV or Parquet in Alibaba's columns.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the requests to a file, not to the terminal."),
    ] = None,
    sampled: SampledOption = None,
    program: Annotated[
        Path | None,
        typer.Option("--program", metavar="PROGRAM", help="The program whose services and calls the traces are of."),
    ] = None,
    names: NamesOption = None,
    partial: PartialOption = False,
    include: IncludeOption = None,
) -> int:
    """Make a `request` of each shape of traces: which calls they make, how often, and what runs together."""
    from admc.base.files import write_whole
    from admc.cli.output import Progress, write_error, write_out
    from admc.compile.pipeline import load_program
    from admc.cost.traces import requests_adm
    from admc.cost.traces import text as traces_text
    from admc.cost.traces.names import read_names
    from admc.cost.traces.requests import imported

    of_all = share(sampled)
    loaded = None if program is None else load_program(program, include=include)
    parties = None if loaded is None else {*loaded.services, *loaded.externals}
    given = None if names is None else read_names(names, parties)
    progress = Progress()
    try:
        progress("traces")
        requests = imported(loaded, files, of_all, given, partial_traces=partial)
    finally:
        progress.clear()
    text = requests_adm.render(requests)
    notes = "".join(f"{line}\n" for line in traces_text.dropped(requests.taken, requests.names))
    if output is None:
        write_out(text)
        write_error(notes)
        return Exit.DONE
    write_whole(output, text.encode("utf-8"), inputs=(*files, *(() if names is None else (names,))))
    write_out(traces_text.imported(requests, output) + notes)
    return Exit.DONE
