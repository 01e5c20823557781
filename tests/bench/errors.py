"""Why a suite does not run."""

from __future__ import annotations


class SkippedError(Exception):
    """The machine lacks what the suite needs. The message says what, and what is skipped without it."""
