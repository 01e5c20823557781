"""`make fuzz MINUTES=30`: every pair on every side, applications in namespaces, then random programs until time is up.

For each seed, random programs of single hops, and one random application in namespaces, with guards in the network.

    python -m tests.fidelity.long [--minutes N] [--seed SEED]    prints the seed that it goes by
    python -m tests.fidelity.long --again w7_12                  one random program again: the 12th of seed 7
    python -m tests.fidelity.long --shrink w7_12                 the same, made as small as it gets

Exits with 1 where anything differs that is not known. A random program that differs is made smaller and printed in the
form in which `tests/fidelity/cases` keeps it.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.emitters.envoy.support import ENVOY
from tests.fidelity.cases import Case, text
from tests.fidelity.counterexamples import written
from tests.fidelity.known_differences import reason
from tests.fidelity.mesh.long import NAMES, random_network
from tests.fidelity.mesh.long import runs as in_namespaces
from tests.fidelity.random_programs import smaller
from tests.fidelity.runs import How, Result, What, run
from tests.fidelity.store import WILD, Group, drawn, groups, random_programs
from tests.testbed.mesh import missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fidelity.compare import Difference

MINUTES = 30.0
PAIRS, NAMESPACES = 0.5, 0.7
"""Shares of the time after which nothing more of them is begun: random programs are to have theirs."""
SHRINKING = 180.0
"""Seconds that are spent on making one program smaller."""
MOST_SHRUNK = 3


class Campaign:
    """What was run so far, and what came of it."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._began, self._seconds = time.monotonic(), seconds
        self.counts: Counter[str] = Counter()
        self.groups = 0
        self._shrunk = 0

    def past(self, share: float = 1.0) -> bool:
        """Whether this share of the time is gone."""
        return time.monotonic() > self._began + share * self._seconds

    def note(self, what: str, differences: Sequence[Difference]) -> None:
        """The results of an application that another process ran."""
        for each in differences:
            print(f"  {each}")
        self.counts[What.DIFFERENT if differences else What.EQUAL] += 1
        self.groups += 1
        print(f"{what}: {len(differences)} differences", flush=True)

    def run(self, group: Group) -> None:
        """All of one group; whatever differs is printed."""
        started = time.monotonic()
        results = group.results(self._folder)
        cases = {case.name: case for case in group.cases}
        for found in results.values():
            case = cases[found.case]
            known = found.what == What.DIFFERENT and reason(case.key, found.how)
            self.counts["known to differ" if known else found.what] += 1
            if found.what != What.DIFFERENT or known:
                continue
            print(f"== {case.key} ({found.how})\n{found.detail}\n{text([case])}")
            if group.name.startswith("wild"):
                print(f"again: python -m tests.fidelity.long --again {case.name}")
                if self._shrunk < MOST_SHRUNK:
                    self._shrunk += 1
                    shrink(case.name, self._folder / f"smaller_{case.name}")
        self.groups += 1
        took = time.monotonic() - started
        print(
            f"{group.name}: {len(results)} results in {took:.0f} s, {self.counts[What.DIFFERENT]} differ so far",
            flush=True,
        )


def again(name: str, folder: Path) -> int:
    """One random program by itself."""
    case = next(each for each in drawn(_seed(name), WILD) if each.name == name)
    (found,) = run([case], (How.COMPILED,), folder)
    print(f"{text([case])}\n{found.what} {found.detail}")
    return 1 if found.what == What.DIFFERENT else 0


def shrink(name: str, folder: Path) -> int:
    """The smallest program found that still differs."""
    tries = itertools.count()

    def attempt(case: Case) -> Result:
        return run([case], (How.COMPILED,), folder / str(next(tries)))[0]

    case, least = smaller(_seed(name), WILD, name, attempt, time.monotonic() + SHRINKING)
    if least is None:
        print(f"by itself, `{name}` does not differ")
        return 0
    print(f"smaller:\n{least.detail}\n{text([case])}\n{written(case)}", flush=True)
    return 1


def _seed(name: str) -> int:
    return int(name.removeprefix("w").partition("_")[0])


def everything(minutes: float, seed: int) -> int:
    """Kept cases, all kinds and pairs, and random programs for the rest of the time."""
    print(f"{minutes:g} minutes, seed {seed}; the same again: make fuzz MINUTES={minutes:g} SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        campaign = Campaign(Path(name), minutes * 60)
        _in_the_network(campaign, seed)
        fixed = [group for group in groups(1) if not group.name.startswith("wild")]
        for number, group in enumerate(fixed):
            if campaign.past(PAIRS):
                print(f"time was left for {number} of {len(fixed)} applications of all kinds and pairs")
                break
            campaign.run(group)
        _in_namespaces(campaign)
        programs = 0
        while not campaign.past():
            for group in random_programs(seed, WILD):
                if not campaign.past():
                    campaign.run(group)
                    programs += len(group.names)
            seed += 1
            if not campaign.past():
                _in_the_network(campaign, seed)
    told = ", ".join(f"{count} {what}" for what, count in sorted(campaign.counts.items()))
    print(f"{campaign.groups} applications, {programs} random programs: {told}")
    return 1 if campaign.counts[What.DIFFERENT] else 0


def _in_the_network(campaign: Campaign, seed: int) -> None:
    """A random application whose guards NetworkPolicies may enforce."""
    if not missing():
        for what, differences in random_network(seed):
            campaign.note(what, differences)


def _in_namespaces(campaign: Campaign) -> None:
    """What needs a network."""
    if lacking := missing():
        print(f"nothing is tried in namespaces: this machine lacks {'; '.join(lacking)}")
        return
    tried = in_namespaces(NAMES)
    while not campaign.past(NAMESPACES):
        try:
            campaign.note(*next(tried))
        except StopIteration:
            return
    print("not all was tried in namespaces; all of it: python -m tests.fidelity.mesh.long", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity.long")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--again", metavar="PROGRAM")
    parser.add_argument("--shrink", metavar="PROGRAM")
    chosen = parser.parse_args()
    if ENVOY is None:
        print("there is no Envoy for this platform, so nothing can be compared")
        return 1
    if chosen.again or chosen.shrink:
        with tempfile.TemporaryDirectory() as name:
            return again(chosen.again, Path(name)) if chosen.again else shrink(chosen.shrink, Path(name))
    return everything(chosen.minutes, secrets.randbelow(1_000_000) if chosen.seed is None else chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
