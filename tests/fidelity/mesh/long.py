"""`python -m tests.fidelity.mesh.long [NAME...]`: all examples, ways round, and shapes with every kind; takes long.

    examples, ways, chain, fan_in, fan_out, oneself, outside_in, outside_out      all of them without a name
    network_SEED      the random application of a seed, whose guards may be in the network

Everything runs in all four modes of the testbed: `none`, `full`, `compiled` and `pod`; random applications run as
compiled, in the latter two. Exits with 1 where anything differs, or where nothing can run.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import dsl
from dsl.program import Side
from tests.fidelity.mesh import networks, ways
from tests.fidelity.mesh.beds import judge
from tests.fidelity.mesh.derive import requests
from tests.fidelity.mesh.topologies import TOPOLOGIES, accepted, everyway
from tests.testbed.mesh import Mode, missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.fidelity.compare import Difference

NETWORK = "network_"
NAMES = ("examples", "ways", *(topology.name for topology in TOPOLOGIES))


def runs(names: Sequence[str]) -> Iterator[tuple[str, list[Difference]]]:
    """What was run, and how it differs."""
    for name in names:
        if name.startswith(NETWORK):
            yield from random_network(int(name.removeprefix(NETWORK)))
    if "examples" in names:
        for path in sorted(Path("examples").glob("*/policies.adm")):
            program = dsl.load(path)
            for mode in Mode:
                yield f"{program.app}, {mode}", judge(program, mode, lambda program=program: requests(program))
    if "ways" in names:
        for kind in ways.POLICIES:
            for side in Side:
                program = ways.program(kind, side)
                for mode in Mode:
                    asks = tuple(ways.requests(program, len(ways.PATHS)))
                    yield f"ways round {kind} at {side}, {mode}", judge(program, mode, lambda asks=asks: asks)
    for topology in TOPOLOGIES:
        if topology.name not in names:
            continue
        with tempfile.TemporaryDirectory() as taps:
            Path(taps).chmod(0o777)  # for Envoys of another user
            taken, refused = accepted(topology, taps)
            print(f"{topology.name}: {len(taken)} cases, {len(refused)} refused by the compiler", flush=True)
            for mode, differences in everyway(topology, taken, taps):
                yield f"{topology.name}, {mode}", differences


def random_network(seed: int) -> Iterator[tuple[str, list[Difference]]]:
    """A random application whose guards may be in the network."""
    for mode in (Mode.COMPILED, Mode.POD):
        yield f"{NETWORK}{seed}, {mode}", networks.run(seed, mode)


def main(names: Sequence[str]) -> int:
    """The exit code."""
    if unknown := sorted(name for name in set(names) - set(NAMES) if not re.fullmatch(rf"{NETWORK}\d+", name)):
        print(f"there is no `{unknown[0]}`; choose from {', '.join(NAMES)}, {NETWORK}SEED")
        return 1
    if lacking := missing():
        print(f"no namespaces here, so nothing can be compared: this machine lacks {'; '.join(lacking)}")
        return 1
    wrong = 0
    for what, differences in runs(names or NAMES):
        for each in differences:
            print(f"  {each}")
        wrong += len(differences)
        print(f"{what}: {len(differences)} differences", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
