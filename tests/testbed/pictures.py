"""The pictures of README.md, drawn from the examples themselves.

    python -m tests.testbed.pictures [--check]

With `--check` nothing is written: ends with 1 where a picture no longer shows what the example compiles to.
"""

from __future__ import annotations

import sys
from pathlib import Path

from admc.compile.pipeline import compile_program
from emitters.pictures import svg_comparison

ROOT = Path(__file__).parents[2]
PICTURES = {"hotel_reservation": ROOT / "docs" / "images" / "full-and-compiled.svg"}


def drawn(example: str) -> str:
    """A full mesh beside the compiled one."""
    compiled = compile_program(ROOT / "examples" / example / "policies.adm")
    return svg_comparison(compiled.program, compiled.placement)


def main(arguments: list[str]) -> int:
    stale = []
    for example, path in PICTURES.items():
        picture = drawn(example)
        if "--check" in arguments:
            if not path.exists() or path.read_text() != picture:
                stale.append(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(picture)
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run `python -m tests.testbed.pictures`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
