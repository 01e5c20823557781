"""A Rich console that writes into a string. It takes no text for markup or an emoji, and highlights no numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from io import StringIO


def console_on(stream: StringIO, *, colour: bool, width: int) -> Console:
    """Return a console with a width in columns."""
    return Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=False,
    )
