"""All commands in one application, and its run. Usage errors are diagnostics like all other errors, with exit 1."""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException

from admc import __version__
from admc.base.exits import Exit, wrong_usage
from admc.base.terminal import visible
from admc.cli.advise import advise
from admc.cli.check import check
from admc.cli.comment import app as comment
from admc.cli.compile import compile_
from admc.cli.completion import COMPLETE_VARIABLE, completion
from admc.cli.diff import diff
from admc.cli.doctor import doctor
from admc.cli.explain import explain
from admc.cli.fmt import fmt
from admc.cli.graph import graph
from admc.cli.import_ import app as import_
from admc.cli.inject import inject
from admc.cli.output import write_out
from admc.cli.overhead import overhead
from admc.cli.parser import Command, CommandGroup, usage_error
from admc.cli.plan import plan
from admc.cli.profile import app as profile
from admc.cli.report import report
from admc.cli.rollout import rollout
from admc.cli.serve import serve
from admc.cli.status import status
from admc.cli.test import run_tests
from admc.cli.try_ import try_

IMPORT: Final = "import"
COMMENT: Final = "comment"
PROFILE: Final = "profile"
_UNSET: Final = "is a variable of the shell not set?"

app = typer.Typer(
    name="admc",
    cls=CommandGroup,
    # Help is plain text, because Rich would double the time to the first line.
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("compile", cls=Command)(compile_)
app.command("check", cls=Command)(check)
app.command("fmt", cls=Command)(fmt)
app.command("diff", cls=Command)(diff)
app.command("explain", cls=Command)(explain)
app.command("graph", cls=Command)(graph)
app.command("overhead", cls=Command)(overhead)
app.command("report", cls=Command)(report)
app.command("test", cls=Command)(run_tests)
app.command("try", cls=Command)(try_)
app.command("advise", cls=Command)(advise)
app.command("serve", cls=Command)(serve)
app.command("inject", cls=Command)(inject)
app.command("status", cls=Command)(status)
app.command("rollout", cls=Command)(rollout)
app.command("plan", cls=Command)(plan)
app.add_typer(profile, name=PROFILE)
app.add_typer(import_, name=IMPORT)
app.add_typer(comment, name=COMMENT)
app.command("doctor", cls=Command)(doctor)
app.command("completion", cls=Command)(completion)


def _version(wanted: bool) -> None:
    if wanted:
        write_out(f"admc {__version__}\n")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 wrong input or usage, 2 changes found, 3 no correct placement, 4 a gate was "
    "breached, 5 optimality not proven, 70 a bug in admc."
)
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Compile communication policies into the smallest correct set of ADMs (application-defined middleboxes).

    An ADM is a sidecar proxy that enforces the policies of a program. Only services that need one get it.

    To begin: `admc explain kinds` lists the kinds of policies, `admc check policies.adm` finds the errors of a program,
    and `admc compile policies.adm` shows which services need an ADM.
    """


def run(arguments: list[str]) -> int:
    """Run one command line, and return its exit code. Raises `CommandError` for wrong usage, and if the command raises
    it; a command may also return a code other than 0."""
    _refuse_empty_arguments(arguments)
    if os.environ.get(COMPLETE_VARIABLE):
        from typer._completion_classes import completion_init

        completion_init()
    try:
        code = _command().main(
            args=arguments or ["--help"], prog_name="admc", standalone_mode=False, complete_var=COMPLETE_VARIABLE
        )
    except typer.Abort:
        return Exit.INTERRUPTED
    except TyperException as error:
        raise usage_error(error, arguments, _commands()) from error
    return code if isinstance(code, int) else Exit.DONE


@cache
def _command() -> typer.core.TyperGroup:
    """The command, which is cached: to build it takes 50 ms, and a process may run several command lines."""
    return typer.main.get_group(app)


def _commands() -> list[str]:
    return [PROFILE, IMPORT, COMMENT, *(item.name for item in app.registered_commands if item.name)]


def _refuse_empty_arguments(arguments: list[str]) -> None:
    """Refuse an empty argument, which usually is an unset shell variable. As a path it would be the working
    directory."""
    before = ""
    for argument in arguments:
        option, separator, value = argument.partition("=")
        if not argument and not before.startswith("-"):
            raise wrong_usage("ADM801", "an argument is empty", hint=_UNSET)
        if not argument or (option.startswith("--") and separator and not value):
            raise wrong_usage("ADM801", f"`{visible(option or before)}` has an empty value", hint=_UNSET)
        before = argument
