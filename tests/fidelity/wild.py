"""Programs at random: two to five policies on a call, on whatever sides the compiler finds, and requests at random.

The same seed gives the same programs. What differs is made smaller by leaving out policies and requests.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING, TypeVar

from dsl.program import Protocol, Side
from tests.fidelity.asks import Ask
from tests.fidelity.cases import Case, Written, load, text
from tests.fidelity.pairs import HALVES, READERS, Half, set_aside
from tests.fidelity.runs import How, Result, What, run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dsl.program import Kind

Item = TypeVar("Item")
NARROWED = 0.3
"""How many policies have to stand on a given side."""
MOST_ROUNDS = 6
KNOWN_PAIRS = (
    {"external_authorization", "buffer_limit"},
    {"fault_delay", "buffer_limit"},
    {"mirror", "outlier_detection"},
)
"""What is known to differ (`known`) would hide what is not."""


def wild(seed: int, count: int) -> list[Case]:
    """`count` cases, http twice as often as gRPC."""
    random = Random(seed)  # noqa: S311 - programs, not secrets
    return [
        _case(random, f"w{seed}_{index}", Protocol.GRPC if index % 3 == 2 else Protocol.HTTP) for index in range(count)
    ]


def _case(random: Random, name: str, protocol: Protocol) -> Case:
    kinds = _kinds()
    fitting = [half for half in (*HALVES, *READERS) if protocol in kinds[half.kind].protocols]
    halves: list[Half] = []
    for half in random.sample(fitting, len(fitting)):
        taken = {each.kind for each in halves}
        if half.kind in taken and kinds[half.kind].exclusive:
            continue
        if {"mirror", "split"} <= taken | {half.kind}:  # both at one service: which arrives first is nobody's promise
            continue
        if any(pair <= taken | {half.kind} for pair in KNOWN_PAIRS):
            continue
        halves.append(half)
        if len(halves) == 5 or (len(halves) > 1 and random.random() < 0.35):
            break
    written = []
    for half in halves:
        sides = tuple(kinds[half.kind].sides)
        side: Side | None = random.choice(sides) if random.random() < NARROWED else None
        written.append(Written(half.kind, half.arguments, half.when, half.scope, side))
    asks = [ask for half in halves for ask in half.asks]
    mixed = [replace(random.choice(asks).besides(random.choice(asks)), times=1, pause=0.0) for _ in range(4)]
    headers = {pair[0]: pair for half in halves for pair in half.always}
    found = [*mixed, *random.sample(asks, min(len(asks), 4)), Ask()]
    sound = [ask for ask in found if not set_aside(ask, {half.kind for half in halves}, protocol)]
    return Case(name, protocol, tuple(written), tuple(_with(ask, headers) for ask in sound))


@cache
def _kinds() -> Mapping[str, Kind]:
    return load(text([])).kinds


def _with(ask: Ask, headers: dict[str, tuple[str, str]]) -> Ask:
    given = {name for name, _ in ask.headers}
    return replace(ask, headers=(*ask.headers, *(pair for name, pair in headers.items() if name not in given)))


def smaller(case: Case, folder: Path) -> tuple[Case, Result]:
    """The smallest case found that still differs, by leaving out one policy or request after another."""
    (best,) = run([case], (How.COMPILED,), folder / "0")
    for number in range(1, MOST_ROUNDS):
        variants = [replace(case, policies=_but(case.policies, index)) for index in range(len(case.policies))]
        variants += [replace(case, asks=_but(case.asks, index)) for index in range(len(case.asks))]
        variants = [
            replace(each, name=f"v{index}") for index, each in enumerate(variants) if each.policies and each.asks
        ]
        results = run(variants, (How.COMPILED,), folder / str(number))
        different = {each.case: each for each in results if each.what == What.DIFFERENT}
        if not different:
            break
        case = next(each for each in variants if each.name in different)
        best = different[case.name]
    return case, best


def _but(items: tuple[Item, ...], index: int) -> tuple[Item, ...]:
    return items[:index] + items[index + 1 :]
