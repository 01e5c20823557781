"""What a mesh costs, with a load of one's own choice; `python -m tests.bench --only cost` takes the usual one.

python -m tests.bench.cost [--rate N] [--rounds N] [--window S] [--warm-up S] [--markdown] [--keep DIR]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tests.bench.cost.arm import CostError, Load
from tests.bench.cost.suite import LOAD, cost
from tests.bench.errors import SkippedError
from tests.testbed.mesh import MeshError

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 200
"""Of a table that goes to a file."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cost", description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=_positive, default=LOAD.rate, help=f"requests a second (default: {LOAD.rate:g})")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all arms (default: 3)")
    parser.add_argument("--window", type=_positive, default=LOAD.window, help=f"seconds measured ({LOAD.window:g})")
    parser.add_argument("--warm-up", type=_positive, default=LOAD.warm_up, help=f"seconds before ({LOAD.warm_up:g})")
    parser.add_argument("--markdown", action="store_true", help="a table for a page")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep configurations, logs and every latency in DIR")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    keep: Path | None = options.keep.resolve() if options.keep else None
    if keep and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        parser.error(f"`{options.keep}` is there already, and is no empty folder")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    load = Load(options.rate, options.warm_up, options.window)
    try:
        with tempfile.TemporaryDirectory(prefix="admc-cost-") as folder:
            cost(console, keep or Path(folder), options.rounds, load, as_markdown=options.markdown)
    except (SkippedError, CostError, MeshError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 100_000:
        raise argparse.ArgumentTypeError(f"`{text}` is not between 0 and 100,000")
    return value


if __name__ == "__main__":
    sys.exit(main())
