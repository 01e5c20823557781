"""Errors of files of traces that cannot be read."""

from __future__ import annotations

from pathlib import Path

from admc.base.exits import CommandError, wrong_usage


class TooMuchError(Exception):
    """A limit was exceeded; the text says which."""


def unreadable(path: Path, cause: str, hint: str | None = None) -> CommandError:
    return wrong_usage("ADM880", f"`{path}` cannot be read as traces", cause=cause, hint=hint)
