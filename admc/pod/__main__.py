"""python -m admc.pod PROGRAM ...: the programs of init containers. Each exits with 0 when it is done, else with 1."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = ("rules", "wait")
"""Each is a module beside this one with `main(arguments) -> int`. A module is imported only when it is run."""


def main(arguments: Sequence[str]) -> int:
    """Run a program, and return its exit code."""
    if not arguments or arguments[0] not in PROGRAMS:
        print(f"usage: python -m admc.pod {'|'.join(PROGRAMS)} ARGUMENTS", file=sys.stderr)
        return 1
    program = import_module(f"admc.pod.{arguments[0]}")
    code: int = program.main(arguments[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
