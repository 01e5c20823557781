"""`admc fmt`: formats programs in the standard layout."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from admc.base.exits import CommandError, Exit
from admc.cli.suggestions import programs
from admc.compile.programs import STANDARD_INPUT

MAX_BYTES = 100_000_000


def fmt(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Programs, or folders that contain `.adm` files; `-` is standard input.",
            autocompletion=programs,
        ),
    ],
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if a file would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; show what would change.")] = False,
) -> int:
    """Format programs in place."""
    from admc.base.findings.report import Report
    from admc.cli.output import show_reports, write_out
    from admc.compile.programs import find_programs
    from dsl.diagnostics.diagnostic import Diagnostic, Severity

    selected = find_programs(files, parts=True)
    failed = [Report(selected.problems, Exit.INPUT)] if selected.problems else []
    code = Exit.INPUT if failed else Exit.DONE
    for name in selected.files:
        try:
            before, after = _formatted(name)
            changed = before != after
            if diff:
                if changed:
                    write_out("".join(_diff(name, before, after)))
            elif name == STANDARD_INPUT and not check:
                write_out(after)
            elif changed and not check:
                from admc.base.files import write_whole

                write_whole(Path(name), after.encode("utf-8"))
                write_out(f"formatted {_visible(name)}\n")
            if check and changed:
                from admc.base.terminal import command

                raise CommandError(
                    Exit.INPUT,
                    [
                        Diagnostic(
                            "ADM808",
                            Severity.ERROR,
                            f"`{name}` is not formatted",
                            None,
                            hint=f"`{command('fmt', name)}` formats it",
                        )
                    ],
                )
        except CommandError as error:
            failed.append(Report(error.diagnostics, error.exit_code, error.folder))
            code = error.exit_code
    show_reports(failed)
    return code


def _formatted(name: str) -> tuple[str, str]:
    import dsl
    from admc.compile.pipeline import folder_of
    from dsl.diagnostics.diagnostic import ProgramError

    before = _text(name)
    try:
        return before, dsl.format_text(before, "<stdin>" if name == STANDARD_INPUT else Path(name).name)
    except ProgramError as error:
        folder = "" if name == STANDARD_INPUT else folder_of(Path(name))
        raise CommandError(Exit.INPUT, error.diagnostics, folder) from error


def _text(name: str) -> str:
    from admc.base.exits import wrong_usage
    from admc.base.files import read_bounded
    from dsl.files.folders import OutsideError, resolved

    if name == STANDARD_INPUT:
        content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise wrong_usage("ADM802", "standard input is too large", cause=f"it has more than {MAX_BYTES} bytes")
    else:
        try:
            resolved(Path(name), (Path(name).parent,))
        except OutsideError as error:
            raise wrong_usage(
                "ADM802",
                f"cannot read the program `{name}`",
                cause="it is a symbolic link that leads out of its folder",
                hint="name the file that the link leads to",
            ) from error
        except OSError as error:
            raise wrong_usage("ADM802", f"cannot read the program `{name}`", cause=error.strerror) from error
        content = read_bounded(Path(name), MAX_BYTES, "the program")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong_usage("ADM802", f"cannot read `{name}`", cause=f"byte {error.start} is not UTF-8") from error


def _diff(name: str, before: str, after: str) -> Iterator[str]:
    """A patch, with control characters escaped on a terminal."""
    import difflib

    from admc.base.terminal import is_terminal, visible

    escape = is_terminal(sys.stdout)
    lines = difflib.unified_diff(_lines(before), _lines(after), fromfile=name, tofile=f"{name} (formatted)")
    for line in lines:
        body = line.rstrip("\n")
        yield (visible(body) if escape else body) + "\n"
        if not line.endswith("\n"):
            yield "\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """The lines of a text as a patch counts them. Only a line feed ends a line."""
    return list(io.StringIO(text, newline="\n"))


def _visible(name: str) -> str:
    from admc.base.terminal import visible

    return visible(name)
