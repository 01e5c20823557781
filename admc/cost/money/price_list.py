"""Reads a price list: the prices of a core and of a GiB for a month, and the amounts that a sidecar reserves.

`docs/profiles.md` describes the JSON form, `admc/prices.schema.json` is its schema.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from annotated_types import Ge

from admc.base.exits import CommandError, Exit
from admc.base.files import read_bounded
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.documents import DocumentError, Exact, Fault, Form, VersionError, document, read_exact
from dsl.files.reading import decode
from dsl.text import SourceText, Span

MAX_CHARACTERS: Final = 100_000
CODE: Final = "ADM858"
_HINTS: Final = {
    Fault.SYNTAX: "a price list is a JSON document; see `docs/profiles.md`",
    Fault.ABSENT: "a price that is zero is written as `0`",
}
_Price = Annotated[Exact, Ge(0)]


@document
class Reserved:
    """The resources that one sidecar reserves: the resource requests of its container in Kubernetes."""

    cores: _Price
    gib: _Price


@document
class PriceList:
    """The prices of a core and of a GiB of memory for a month, and the amounts of both that a sidecar reserves."""

    schema_version: Literal[1]
    currency: Annotated[str, Form("[A-Z]{3}", "must be three capital letters, such as `EUR`")]
    core_month: _Price
    """The price of one core for a month."""
    gib_month: _Price
    """The price of one GiB (2^30 bytes) of memory for a month."""
    sidecar: Reserved


def named_prices(path: Path) -> PriceList:
    """Read the prices in a file. Raises `CommandError` (exit 1) with the mistakes of the file."""
    content = read_bounded(path, MAX_CHARACTERS, "the price list")
    diagnostics = Diagnostics()
    text = decode(str(path), content, None, diagnostics)
    prices = None if text is None else read_prices(text, diagnostics)
    if prices is None:
        raise CommandError(Exit.INPUT, diagnostics.items)
    return prices


def read_prices(source: SourceText, diagnostics: Diagnostics) -> PriceList | None:
    """The prices in the text of a file; None after errors."""
    try:
        return read_exact(PriceList, source.text)
    except DocumentError as error:
        newer = isinstance(error, VersionError) and error.newer
        for violation in error.violations:
            refused = f"`{source.path}` is no price list: " if violation.fault is Fault.SYNTAX else ""
            hint = _HINTS.get(violation.fault) or violation.hint
            place = Span(source, *violation.range)
            diagnostics.error(CODE, f"{refused}{violation}", place, hint="use the newer admc" if newer else hint)
        return None
