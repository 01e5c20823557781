"""Reads a price list: what a core and a GiB cost in a month, and how much of both a sidecar reserves.

`docs/profiles.md` describes the JSON form, `admc/prices.schema.json` is its schema.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from admc.exits import CommandError, Exit
from admc.files import read_bounded
from admc.overhead.profiles.fields import Fields, shown
from admc.overhead.profiles.json_text import JsonError, Node, parse
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.reading import decode
from dsl.text import SourceText, Span

SCHEMA_VERSION: Final = 1
MAX_CHARACTERS: Final = 100_000
CODE: Final = "ADM858"
_KEYS: Final = ("schema_version", "currency", "core_month", "gib_month", "sidecar")
_RESERVED: Final = ("cores", "gib")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")


class PriceList(NamedTuple):
    currency: str
    """Three letters, such as EUR."""
    core_month: Decimal
    gib_month: Decimal
    reserved_cores: Decimal
    """Of one sidecar: what its container requests."""
    reserved_gib: Decimal


def named_prices(path: Path) -> PriceList:
    """Raises `CommandError` (exit 1) with all mistakes of the file."""
    content = read_bounded(path, MAX_CHARACTERS, "the price list")
    diagnostics = Diagnostics()
    text = decode(str(path), content, None, diagnostics)
    found = None if text is None else read_prices(text, diagnostics)
    if found is None:
        raise CommandError(Exit.INPUT, diagnostics.items)
    return found


def read_prices(source: SourceText, diagnostics: Diagnostics) -> PriceList | None:
    """The prices in a file, or None after errors."""
    try:
        document = parse(source)
    except JsonError as error:
        hint = "a price list is a JSON document; see `docs/profiles.md`"
        diagnostics.error(CODE, f"`{source.path}` is no price list: {error.message}", error.span, hint=hint)
        return None
    return _Reader(diagnostics).prices(document)


class _Reader(Fields):
    absent = "a price that is zero is written as `0`"

    def error(self, code: str, message: str, span: Span, hint: str | None = None, cause: str | None = None) -> None:
        """Every mistake in a price list has one code."""
        super().error(CODE, message, span, hint, cause)

    def prices(self, document: Node) -> PriceList | None:
        before = self.diagnostics.errors
        if isinstance(document.value, dict) and not self._version(document.value.get("schema_version")):
            return None
        top = self.object(document, "a price list", _KEYS)
        if top is None:
            return None
        currency = self._currency(top["currency"])
        core, gib = (self.number(top[key], f"`{key}`") for key in ("core_month", "gib_month"))
        reserved = self.object(top["sidecar"], "`sidecar`", _RESERVED) or {}
        cores, memory = (self.number(reserved[key], f"`{key}`") if reserved else None for key in _RESERVED)
        if self.diagnostics.errors > before or core is None or gib is None or cores is None or memory is None:
            return None
        return PriceList(currency, core, gib, cores, memory)

    def _version(self, node: Node | None) -> bool:
        """A missing version is reported with the other fields."""
        if node is None or node.value == Decimal(SCHEMA_VERSION):
            return True
        newer = isinstance(node.value, Decimal) and node.value > SCHEMA_VERSION
        message = f"this price list has schema version {shown(node)}, and this admc reads {SCHEMA_VERSION}"
        self.error(CODE, message, node.span, "use the newer admc" if newer else f"write `{SCHEMA_VERSION}`")
        return False

    def _currency(self, node: Node) -> str:
        found = self.text(node, "`currency`")
        if found is not None and not _CURRENCY.fullmatch(found):
            self.error(CODE, f"`currency` is three capital letters, not {shown(node)}", node.span, "write `EUR`")
        return found or ""
