"""Results that all tests of a run share: the first one runs an application, the others read its results.

Tests are spread over processes, one case a test; an application with hundreds of cases is started once.
"""

from __future__ import annotations

import fcntl
import json
from functools import cache, cached_property
from typing import TYPE_CHECKING

from tests.fidelity.counterexamples import kept
from tests.fidelity.failures import failures
from tests.fidelity.known_differences import reason
from tests.fidelity.pairs import pairs, shared
from tests.fidelity.random_programs import wild
from tests.fidelity.runs import How, Result, What, run
from tests.fidelity.singles import singles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.fidelity.cases import Case

AGAIN = 2
"""How often what differs is tried again."""
SIZE = 220
"""Cases of one application."""
EVERY = 8
"""Of the pairs on given sides, one in so many is part of `make test-all`; `python -m tests.fidelity.long` runs all."""

SEED, WILD = 0, 400
"""Random programs of `make test-all`, always the same. The compiler refuses up to a third; two hundred are run."""


class Group:
    """Cases that run in one application. Their names are known at once; cases that take long are made when needed.

    `hows` are the ways in which they run; a case that the compiler refuses has one result, under the last way.
    """

    def __init__(
        self,
        name: str,
        cases: list[Case] | Callable[[], list[Case]],
        hows: tuple[How, ...],
        names: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.hows = hows
        self.quick = name.startswith("singles")
        """Part of `make test`: each kind, on each side, in each protocol."""
        self._cases = cases
        self.names = names or tuple(case.name for case in self.cases)

    @cached_property
    def cases(self) -> list[Case]:
        return self._cases() if callable(self._cases) else self._cases

    def results(self, folder: Path) -> Mapping[tuple[str, str], Result]:
        """By case and way of running; `folder` is shared by all processes of a test run."""
        folder.mkdir(parents=True, exist_ok=True)
        stored = folder / f"{self.name}.json"
        with (folder / f"{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stored.exists():
                try:
                    content = json.dumps(self._settled(folder / self.name))
                except Exception as error:
                    stored.write_text(json.dumps(f"{type(error).__name__}: {error}"))  # it would fail again
                    raise
                stored.write_text(content)
        content = json.loads(stored.read_text())
        if isinstance(content, str):
            raise RuntimeError(f"the application of `{self.name}` did not run: {content}")
        found = [Result(*each) for each in content]
        return {(each.case, each.how): each for each in found}

    def _settled(self, folder: Path) -> list[Result]:
        """Cases that differ are tried again without the others: a busy machine is late now and then.

        What is really different differs each time.
        """
        found = run(self.cases, self.hows, folder)
        for number in range(AGAIN):
            differ = {each.case for each in found if each.what == What.DIFFERENT}
            cases = [case for case in self.cases if case.name in differ and not self._known(case)]
            if not cases:
                break
            again = {(each.case, each.how): each for each in run(cases, self.hows, folder / f"again_{number}")}
            found = [again.get((each.case, each.how), each) for each in found]
        return found

    def _known(self, case: Case) -> bool:
        return any(reason(case.key, how) for how in self.hows)


def groups(every: int = EVERY) -> list[Group]:
    """All of them; of the pairs on given sides one in `every`."""
    return [
        *_parts("singles", singles(), (How.COMPILED,)),
        Group("kept", [each.case for each in kept()], (How.FULL, How.COMPILED)),
        *_parts("elsewhere_singles", singles(), (How.NONE, How.FULL)),
        *_parts("shared", shared(), (How.FULL, How.COMPILED)),
        Group("failures", failures(), (How.FULL, How.COMPILED)),
        *random_programs(SEED, WILD),
        *_parts("pairs", pairs()[::every], (How.COMPILED,)),
    ]


def random_programs(seed: int, count: int) -> list[Group]:
    """`wild(seed, count)` in parts, drawn by the first test that needs them."""

    def part(at: int) -> Callable[[], list[Case]]:
        return lambda: drawn(seed, count)[at : at + SIZE]

    return [
        Group(
            f"wild_{seed}_{at // SIZE}",
            part(at),
            (How.COMPILED,),
            tuple(f"w{seed}_{index}" for index in range(at, min(at + SIZE, count))),
        )
        for at in range(0, count, SIZE)
    ]


@cache
def drawn(seed: int, count: int) -> list[Case]:
    return wild(seed, count)


def _parts(name: str, cases: list[Case], hows: tuple[How, ...]) -> list[Group]:
    return [Group(f"{name}_{at // SIZE}", cases[at : at + SIZE], hows) for at in range(0, len(cases), SIZE)]
