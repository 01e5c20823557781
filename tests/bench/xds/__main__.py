"""One scenario, or a few: `make bench` runs all of them, and takes minutes.

    python -m tests.bench.xds [WORDS] [--runs N]

runs those whose titles have the words in them, such as `one of 100 clusters changes, delta, 2,000`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from tests.bench.errors import SkippedError
from tests.bench.xds.compare import BrokenError
from tests.bench.xds.suite import PROMISED, xds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.xds", description=__doc__)
    parser.add_argument("words", nargs="?", default="", help="part of the titles")
    parser.add_argument("--runs", type=int, default=3, help="rounds with each server")
    options = parser.parse_args()
    if not any(options.words in scenario.name for scenario, _ in PROMISED):
        titles = "\n".join(f"  {scenario.name}" for scenario, _ in PROMISED)
        parser.error(f"no scenario has `{options.words}` in its title:\n{titles}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            xds(Console(), Path(folder), options.runs, options.words)
        except (SkippedError, BrokenError) as error:
            parser.exit(1, f"{error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
