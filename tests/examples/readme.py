"""The commands of README.md, run as they stand there.

    python -m tests.examples.readme

A fenced `console` block holds commands behind `$ ` and what they print. Those that begin with `admc` are run, each in
a copy of the examples, and their output is put in; the others are left alone. A line of three dots stands for output
that is left out: what comes after it has to follow somewhere.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOTS = "..."
WIDTH = "100"


class Step(NamedTuple):
    """One command and what stands below it."""

    command: str
    shown: str

    @property
    def runs(self) -> bool:
        return self.command.startswith("admc ")


def steps(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield Step(command, shown)


def output(command: str, folder: Path) -> str:
    """What a command prints in a folder; errors among it."""
    words = shlex.split(command)
    done = subprocess.run(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]],
        cwd=folder,
        env={**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def agrees(shown: str, printed: str) -> bool:
    """Whether what is shown was printed, where three dots stand for any lines."""
    parts = shown.split(f"{DOTS}\n")
    at = 0
    for number, part in enumerate(parts):
        found = printed.find(part, at)
        if found < 0 or (number == 0 and found != 0) or (found > 0 and printed[found - 1] != "\n"):
            return False
        at = found + len(part)
    return at == len(printed) or parts[-1] == ""


def playground(folder: Path) -> Path:
    """A folder with the examples as a fresh clone has them."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def rewritten(text: str) -> str:
    """The text with fresh output below every command that runs and leaves nothing out."""
    with tempfile.TemporaryDirectory() as name:
        folder = playground(Path(name))

        def block(found: re.Match[str]) -> str:
            lines = []
            for step in steps(found[1]):
                fresh = output(step.command, folder) if step.runs else step.shown
                lines.append(f"$ {step.command}\n{step.shown if DOTS in step.shown.splitlines() else fresh}")
            return f"```console\n{''.join(lines)}```"

        return BLOCK.sub(block, text)


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text()))
