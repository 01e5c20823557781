"""Reports a bug in admc: the error and the files to send, in place of a traceback."""

from __future__ import annotations

import platform
import sys

from admc import __version__
from admc.base.exits import Exit
from admc.base.findings.report import Report
from admc.base.unexpected import describe
from admc.cli.options import requested_format
from admc.cli.output import show_failure
from dsl.diagnostics.diagnostic import Diagnostic, Severity


def report_bug(error: Exception, arguments: list[str]) -> int:
    """Show the report in the requested format. Returns exit code 70."""
    if isinstance(error, MemoryError):
        what = "admc ran out of memory"
    elif isinstance(error, RecursionError):
        what = "admc met something that is nested too deeply"
    else:
        what = "admc met an unexpected error"
    version = f"admc {__version__}, Python {platform.python_version()}, {sys.platform}"
    diagnostic = Diagnostic(
        "ADM901",
        Severity.ERROR,
        f"{what}; this is a bug in admc",
        None,
        cause=f"{describe(error)}; {version}",
        hint="please report it with these lines, the command that you ran, and the program if you may share it; "
        "`ADMC_TRACEBACK=1` before the command shows the full trace",
    )
    show_failure(Report((diagnostic,), Exit.BUG), requested_format(arguments))
    return Exit.BUG
