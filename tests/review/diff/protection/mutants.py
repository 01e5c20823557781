"""Comparisons that lack one of their parts. Under each, some random pair is a breach: `test_soundness_mutants`.

`python -m tests.review.diff.protection.mutants [NAME ...]` says after how many pairs.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

from admc.review.diff.protection import (
    arguments,
    asked,
    callers,
    closing,
    comparison,
    detection,
    effects,
    environment,
    guards,
    index,
    interference,
    kinds,
    meeting,
    regions,
    reliance,
    targets,
)
from dsl.program import Place
from tests.review.diff.protection.edits import EDITS
from tests.review.diff.protection.soak import soak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admc.compile.plan.model import DecisionPlan, PolicyContent
    from admc.review.diff.model import CallName
    from admc.review.diff.protection.index import PlanIndex
    from admc.review.diff.protection.reliance import Assumption
    from tests.review.diff.protection.soak import Table

ENOUGH: Final = 400
"""Pairs among which a breach is found."""
SEED: Final = 500_000


class Mutant(NamedTuple):
    name: str
    lacks: tuple[tuple[object, str, object], ...]
    """Modules, their names, and what stands there instead."""
    classes: tuple[str, ...]
    """Of edits that show it."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module, name, other in self.lacks:
                stack.enter_context(patch.object(module, name, other))
            yield

    def found(self) -> Table:
        """A run that ends with the first breach."""
        edits = tuple(each for each in EDITS if each.name in self.classes)
        with self.applied():
            return soak(range(SEED, SEED + ENOUGH), edits, first=True)


def _nothing(*_arguments: object) -> list[object]:
    return []


def _without(*detectors: detection.Detector) -> tuple[tuple[object, str, object], ...]:
    return ((detection, "DETECTORS", tuple(each for each in detection.DETECTORS if each not in detectors)),)


def _everywhere(name: str, other: Callable[..., object]) -> tuple[tuple[object, str, object], ...]:
    """In all modules that have a function of `regions` by its name."""
    modules = (regions, comparison, asked, callers, environment, targets)
    return tuple((module, name, other) for module in modules if hasattr(module, name))


def _reads_or_writes(one: PolicyContent, two: PolicyContent, *, inner: bool) -> bool:
    """As if a policy of which nothing is known did nothing to one that reads and writes nothing."""
    return effects.overwrites(one, two) or effects.feeds(one, two, on_response=inner)


def _refuses_every_caller(plan: PlanIndex, call: CallName) -> bool:
    """As if a closed port admitted no undeclared caller."""
    return (call.destination, call.port) in plan.closed_at


_rests_on: Final = reliance.rests_on


def _the_network_is_certain(plan: PlanIndex, decision: DecisionPlan) -> frozenset[Assumption]:
    return frozenset() if decision.place is Place.NETWORK else _rests_on(plan, decision)


def _nodes_are_judged(plan: PlanIndex, decision: DecisionPlan) -> frozenset[Assumption]:
    """As if NetworkPolicies refused traffic of the destination's own node."""
    return frozenset(each for each in _rests_on(plan, decision) if each.reason is not reliance.Reason.NODE)


_BEFORE: Final = ("policy before what is asked", "policy before a target")
_ANOTHER: Final = ("another service is asked", "another target")
_EXTERNALS: Final = ("external split", "externals merged", "external's ranges", "external comes", "external goes")
_PODS: Final = ("service split", "same pods", "labels")
_GUARDS: Final = ("callers of a guard", "place of a guard", "one more guard", "another policy needs the closing")
_RELYING: Final = ("a policy no longer needs the closing",)

MUTANTS: Final = (
    Mutant("what ADMs call", _without(asked.asked_otherwise), (*_BEFORE, *_ANOTHER)),
    Mutant("policies in front of what is asked", ((asked, "_way", _nothing),), _BEFORE[:1]),
    Mutant("policies in front of a target", ((asked, "_way", _nothing),), _BEFORE[1:]),
    Mutant("which service is asked", ((asked, "_target", lambda *_: None),), _ANOTHER[:1]),
    Mutant("which service is a target", ((asked, "_target", lambda *_: None),), _ANOTHER[1:]),
    Mutant("callers with another name", _without(callers.now_known_otherwise), (*_EXTERNALS, "host_network")),
    Mutant("owners of addresses", _everywhere("moved_addresses", _nothing), _EXTERNALS),
    Mutant("pods of two services", _everywhere("newly_shared", _nothing), _PODS),
    Mutant("ways to a host", ((targets, "_new_ways_outside", lambda _: {}),), ("external comes",)),
    Mutant("ways to a process", _without(targets.other_ways), ("one more port", "port target", "service split")),
    Mutant("which pods are selected", _without(environment.selected_pods), ("labels", "namespace", *_PODS)),
    Mutant(
        "callers on the network of a node",
        ((regions, "_known_as", lambda _, service: frozenset((service,))),),
        ("host_network",),
    ),
    Mutant("kinds of one's own", _without(kinds.changed_kinds, arguments.changed_arguments), ("own kind",)),
    Mutant(
        "scripts before what reads nothing",
        ((interference, "_unknown_may_weaken", _reads_or_writes),),
        ("a script comes",),
    ),
    Mutant(
        "calls that go on",
        ((meeting, "goes_on", lambda *_: False),),
        ("a call from or to outside goes",),
    ),
    Mutant(
        "callers that guards of the network admit",
        ((index.PlanIndex, "closed_to", _refuses_every_caller),),
        _RELYING,
    ),
    Mutant("a guard in the network that admits more", _without(guards.admitted, closing.newly_admitted), _GUARDS),
    Mutant("callers that closings newly admit", _without(closing.newly_admitted), _RELYING),
    Mutant("ports that are no longer closed", _without(closing.no_longer_closed), _RELYING),
    Mutant(
        "what a guard in the network rests on",
        ((reliance, "rests_on", _the_network_is_certain),),
        ("place of a guard", "network_policies enforced", "accept host_network"),
    ),
    Mutant(
        "traffic of a node",
        ((reliance, "rests_on", _nodes_are_judged),),
        ("accept host_network", "host_network", "place of a guard"),
    ),
)


def main(names: list[str]) -> int:
    missed = 0
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        began = time.process_time()
        table = mutant.found()
        missed += not table.breaches
        said = table.breaches[0].partition("\n")[0] if table.breaches else "NOT FOUND"
        sys.stdout.write(f"{mutant.name}: {table.pairs} pairs, {time.process_time() - began:.0f} s: {said[:200]}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
