"""Many random pairs of programs: where nothing is called weaker, HEAD lets nothing through that BASE refuses or counts.

`python -m tests.review.diff.protection.soak --pairs 5000 --seed 1` prints how often each class of edits was drawn, how
many of its pairs were compared in silence, and how many of these were a breach.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from admc.review.diff.identity import renames
from admc.review.diff.protection import findings
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Place
from solver.placement import PlacementError
from tests.review.diff.protection.edits import EDITS
from tests.review.diff.protection.judged import breaches
from tests.review.diff.protection.plans import Compiled, compiled
from tests.review.diff.protection.random_pairs import Drawn, drawn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.review.diff.protection.edit import Edit
    from tests.review.diff.protection.specs import Spec


def compiled_or_none(spec: Spec) -> Compiled | None:
    try:
        return compiled(spec.text(), spec.files())
    except (ProgramError, PlacementError):
        return None


NAMES: Final = ("in either plan", "that goes there", "that leaves")
"""What a pair of programs may show of guards in the network."""


@dataclass
class Table:
    """What was drawn, by class of edit. A pair with several edits counts for each."""

    drawn: Counter[str] = field(default_factory=Counter)
    silent: Counter[str] = field(default_factory=Counter)
    """Pairs of which the comparison says that nothing gets weaker."""
    broken: Counter[str] = field(default_factory=Counter)
    pairs: int = 0
    judged: int = 0
    network: Counter[str] = field(default_factory=Counter)
    """Pairs that show each of `NAMES`; with `, silent` those of which the comparison says that nothing gets weaker."""
    breaches: list[str] = field(default_factory=list)

    def text(self, edits: Iterable[Edit] = EDITS) -> str:
        rows = [
            f"{each.name:30} {self.drawn[each.name]:8} {self.silent[each.name]:8} {self.broken[each.name]:8}"
            for each in edits
        ]
        total = f"{'pairs':30} {self.pairs:8} {self.judged:8} {len(self.breaches):8}"
        head = f"{'class':30} {'drawn':>8} {'silent':>8} {'breaches':>8}"
        return "\n".join((head, *rows, total, *self._of_the_network()))

    def _of_the_network(self) -> Iterator[str]:
        """How many pairs have a guard in the network, and what the comparison says of them."""
        for name in NAMES:
            drawn, silent = self.network[name], self.network[f"{name}, silent"]
            yield f"guard in the network {name}: {drawn} pairs, {drawn - silent} of them with something weaker"


def pairs(seeds: Iterable[int], edits: Sequence[Edit] = EDITS) -> Iterator[tuple[int, Drawn, Compiled, Compiled]]:
    """For each seed the first pair that compiles and differs."""
    for seed in seeds:
        random = Random(seed)  # noqa: S311
        while True:
            found = drawn(random, edits)
            base = compiled_or_none(found.base) if found.edits else None
            head = None if base is None else compiled_or_none(found.head)
            if base is not None and head is not None:
                yield seed, found, base, head
                break


def _network(base: Compiled, head: Compiled, *, silent: bool) -> Iterator[str]:
    """Which of `NAMES` a pair shows, each again if the comparison is silent."""
    before, after = (_in_network(side) for side in (base, head))
    for name, its in zip(NAMES, (before | after, after - before, before - after), strict=True):
        if its:
            yield name
            if silent:
                yield f"{name}, silent"


def _in_network(side: Compiled) -> frozenset[tuple[str, str]]:
    return frozenset(
        (each.policy, each.destination) for each in side.placement.decisions if each.place is Place.NETWORK
    )


def soak(seeds: Iterable[int], edits: Sequence[Edit] = EDITS, *, first: bool = False) -> Table:
    """`first`: ends with the first breach."""
    table = Table()
    for seed, found, base, head in pairs(seeds, edits):
        table.pairs += 1
        table.drawn.update(found.edits)
        renamed = renames(base.plan, head.plan)
        said = findings(base.plan, head.plan, renamed)
        table.network.update(_network(base, head, silent=not said.weaker))
        if said.weaker:
            continue
        table.judged += 1
        table.silent.update(found.edits)
        broken = next(breaches(base, head, {each.base: each.head for each in renamed}), None)
        if broken is not None:
            table.broken.update(found.edits)
            table.breaches.append(
                f"seed {seed}: {', '.join(found.edits)}: {broken}\n{found.base.text()}\n{found.head.text()}\n{said}"
            )
            if first:
                break
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="a class of edits; several times for several")
    parser.add_argument("--shown", type=int, default=3, help="how many breaches are printed whole")
    given = parser.parse_args()
    edits = tuple(each for each in EDITS if not given.only or each.name in given.only)
    table = soak(range(given.seed, given.seed + given.pairs), edits)
    sys.stdout.write("\n".join((*table.breaches[: given.shown], table.text(edits), "")))
    return 1 if table.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
