"""Options for traces, which `admc overhead` and `admc import traces` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from admc.base.exits import wrong_usage
from admc.base.terminal import visible

FilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--traces",
        metavar="FILE",
        help="Traces of requests (OpenTelemetry or Jaeger JSON, CSV or Parquet in Alibaba's columns), each of which is "
        "evaluated; repeatable.",
    ),
]
SampledOption = Annotated[
    str | None,
    typer.Option(
        "--sampled", metavar="PERCENT", help="The share of all requests that have traces: `1%`; all unless given."
    ),
]

NamesOption = Annotated[
    Path | None,
    typer.Option(
        "--names",
        metavar="FILE",
        help="What traces call services, as JSON: a host name, HOST:PORT or address to a name.",
    ),
]
PartialOption = Annotated[
    bool,
    typer.Option("--partial", help="Take a trace whose first span is missing from the first one that is there."),
]


def share(text: str | None) -> float:
    """The sampled share of requests. Raises `CommandError`."""
    from dsl import units

    if text is None:
        return 1.0
    sampled_share = units.chance(text)
    if isinstance(sampled_share, units.BadNumber):
        raise wrong_usage("ADM801", f"`--sampled {visible(text[:40])}` is no share", hint="write `--sampled 1%`")
    return float(sampled_share)
