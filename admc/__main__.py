"""The entry point of the `admc` command. Every failure becomes a report and an exit code, never a traceback.

Modules that take time to load are imported inside `main`, which handles Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # as type checkers know it; `typing` takes time to load
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType


_INTERRUPTED = 130
"""`admc.base.exits.Exit.INTERRUPTED`, for a Ctrl-C that comes before that is loaded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (without the program's name) and return its exit code (docs/cli.md)."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None or sys.stderr is None:
        _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal cannot show are escaped.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        code = int(_run(typed))
        if code == _INTERRUPTED:  # the parser has caught it and ended the line
            sys.stderr.write("interrupted\n")
        return code
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return _INTERRUPTED
    except Exception as error:
        from admc.cli.bug_report import report_bug

        if os.environ.get("ADMC_TRACEBACK") == "1":
            raise
        return report_bug(error, typed)


def _open_closed_streams() -> None:
    """A caller may close a stream (`>&-`), which is None then: its output goes to the null device."""
    from pathlib import Path

    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115


def _run(typed: list[str]) -> int:
    from admc.base.exits import CommandError
    from admc.cli.app import run
    from admc.cli.options import requested_format

    try:
        return run(typed)
    except CommandError as error:
        from admc.base.findings.report import Format, Report
        from admc.cli.output import OutputError, show_failure

        format_ = Format.TEXT if isinstance(error, OutputError) else requested_format(typed)
        show_failure(Report(error.diagnostics, error.exit_code, error.folder), format_)
        return error.exit_code


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C. Python ends a module run by `-m` with the signal itself, whatever the module returns, if ever a plain
    KeyboardInterrupt left a text that was being executed, as `namedtuple` and `dataclass` do while modules load."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise _Interrupted


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    sys.exit(main())
