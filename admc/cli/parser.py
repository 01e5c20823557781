"""Adapts Typer's parser: help goes through `write_out`, and usage errors become diagnostics.

Typer itself prints help directly to standard output, and ends with a traceback or its own exit code if that fails. It
also words its errors in its own style.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import command, visible
from admc.cli.output import write_out

_EXTRA = re.compile(r"[Gg]ot unexpected extra arguments?(?:\(s\))? \((?P<what>.*)\)")
_NO_NUMBER = re.compile(r"is not a valid (?:float|int|integer)\b")


class Command(TyperCommand):
    def get_help_option(self, ctx: Any) -> TyperOption | None:
        return _printed(super().get_help_option(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_bare(piece) for piece in super().collect_usage_pieces(ctx)]


class CommandGroup(TyperGroup):
    def get_help_option(self, ctx: Any) -> TyperOption | None:
        return _printed(super().get_help_option(ctx))


def _printed(option: TyperOption | None) -> TyperOption | None:
    if option is not None:
        option.callback = _show_help
    return option


def _show_help(ctx: Any, _option: object, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        write_out(ctx.get_help() + "\n")
        ctx.exit()


def _bare(piece: str) -> str:
    """`PROGRAM` for `{PROGRAM}`. In usage lines, an argument without brackets is required."""
    return piece[1:-1] if piece.startswith("{") and piece.endswith("}") else piece


def usage_error(error: TyperException, arguments: list[str], commands: Collection[str]) -> CommandError:
    """An error of the parser as a diagnostic."""
    from dsl.diagnostics.diagnostic import did_you_mean

    first = arguments[0] if arguments else ""
    path = getattr(getattr(error, "ctx", None), "command_path", None) or f"admc {first}"
    help_ = (
        f"`{path} --help` lists its arguments and options" if first in commands else "`admc --help` lists all commands"
    )
    if first not in commands and not first.startswith("-"):
        return wrong_usage(
            "ADM801",
            f"there is no command `{visible(first)}`",
            hint=_command_meant(first, arguments[1:]) or did_you_mean(first, commands) or help_,
        )
    option, possible = getattr(error, "option_name", None), getattr(error, "possibilities", ())
    if option in ("-V", "-v", "-version"):
        return wrong_usage("ADM801", f"there is no option `{option}`", hint="`admc --version` shows the version")
    if option is not None and hasattr(error, "possibilities"):
        guess = did_you_mean(option, possible or ())
        return wrong_usage("ADM801", f"there is no option `{visible(option)}`", hint=guess or help_)
    return wrong_usage("ADM801", _message(error), hint=help_)


_MEANT: Final = {
    **dict.fromkeys(
        ("lint", "validate", "verify", "analyze", "vet"), "`admc check PROGRAM` finds the errors of a program"
    ),
    **dict.fromkeys(("build", "generate", "render", "run"), "`admc compile PROGRAM` shows which services need an ADM"),
    **dict.fromkeys(
        ("apply", "deploy", "install", "sync", "push"),
        "`admc compile PROGRAM --emit DIR` writes the configuration, and `admc serve` gives it to running proxies; in "
        "a cluster, `kubectl apply` the Program object, and `admc inject` puts ADMs into manifests",
    ),
    **dict.fromkeys(("format",), "`admc fmt PROGRAM` formats a program"),
    **dict.fromkeys(("describe", "show", "why", "get"), "`admc explain PROGRAM NAME` says why an ADM is there"),
    **dict.fromkeys(
        ("init", "new", "create"), "a program is a text file: docs/language.md shows one, and `admc check` it"
    ),
    "version": "`admc --version` shows the version",
    "help": "`admc --help` lists all commands, and `admc COMMAND --help` its options",
    "simulate": "`admc try PROGRAM` sends requests through the Envoys of its plan",
    "visualize": "`admc graph PROGRAM` draws the application with its ADMs",
}
"""Names of commands in other tools, each with the corresponding command of admc."""


def _command_meant(first: str, rest: list[str]) -> str | None:
    if first.endswith(".adm"):
        return f"`{command('compile', first, *rest)}` compiles it, and `{command('check', first)}` finds its errors"
    return _MEANT.get(first.lower())


def _message(error: TyperException) -> str:
    format_message = getattr(error, "format_message", None)
    message = str(format_message() if callable(format_message) else error)
    message = " ".join(visible(line.strip()) for line in message.splitlines() if line.strip()).rstrip(".")
    extra = _EXTRA.fullmatch(message)
    if extra is not None:
        return f"unexpected argument `{extra['what']}`"
    message = _NO_NUMBER.sub("is not a number", message)
    message = message.replace(". Choose from:", ": choose from")
    if message.count("'") % 2 == 0 and "`" not in message:
        message = message.replace("'", "`")
    return message[:1].lower() + message[1:]
