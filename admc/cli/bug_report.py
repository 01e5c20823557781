"""What a user sees of a bug in admc: that it is one, and what to send, in place of a traceback."""

from __future__ import annotations

import platform
import sys
import traceback
from pathlib import Path

from admc import __version__
from admc.cli.options import requested_format
from admc.cli.output import show_failure
from admc.exits import Exit
from admc.render.report import Report
from dsl.diagnostics.diagnostic import Diagnostic, Severity

PACKAGES = frozenset({"admc", "dsl", "solver", "emitters", "xds_server"})
SHOWN = 300
"""Characters of the error's own message; some carry a whole file."""


def report_bug(error: Exception, arguments: list[str]) -> int:
    """Show the report in the format that was asked for. Returns exit code 70."""
    if isinstance(error, MemoryError):
        what = "admc ran out of memory"
    elif isinstance(error, RecursionError):
        what = "admc met something nested deeper than it foresees"
    else:
        what = "admc met something that it does not foresee"
    version = f"admc {__version__}, Python {platform.python_version()}, {sys.platform}"
    diagnostic = Diagnostic(
        "ADM901",
        Severity.ERROR,
        f"{what}; this is a bug in admc",
        None,
        cause=f"{said_of(error)}; {version}",
        hint="please report it with these lines, the command that you ran, and the program if you may share it; "
        "`ADMC_TRACEBACK=1` before the command shows the full trace",
    )
    show_failure(Report((diagnostic,), Exit.BUG), requested_format(arguments))
    return Exit.BUG


def said_of(error: Exception) -> str:
    """What an unforeseen error says, and where it came from."""
    return f"{type(error).__name__}: {error}"[:SHOWN] + f" ({_where(error)})"


def _where(error: Exception) -> str:
    """The innermost line of admc's own code."""
    root = Path(__file__).parents[2]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root) and path.relative_to(root).parts[0] in PACKAGES:
            return f"at {path.relative_to(root).as_posix()}:{frame.lineno}"
    return "at an unknown place"
