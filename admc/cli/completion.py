"""`admc completion`: the script that makes a shell complete admc's commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

COMPLETE_VARIABLE = "_ADMC_COMPLETE"


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="`bash`, `zsh` or `fish`.")]) -> int:
    """Print the completion script of a shell.

    For example: `eval "$(admc completion bash)"`
    """
    from typer._completion_shared import get_completion_script

    from admc.base.exits import Exit
    from admc.cli.output import write_out

    script = get_completion_script(prog_name="admc", complete_var=COMPLETE_VARIABLE, shell=shell.value)
    write_out(script + "\n")
    return Exit.DONE
