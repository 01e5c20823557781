"""Runs of many cases in one application, each with its result: equal, different, refused, no textbook placement."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tests.fidelity.cases import accepted, load, text
from tests.fidelity.compare import judged
from tests.fidelity.echo_services import echo
from tests.fidelity.harness import NO_ADMS, observe
from tests.fidelity.judge import Judge
from tests.fidelity.own_kinds import ALL
from tests.fidelity.placing import together
from tests.fidelity.samples import FILES, TUNNEL
from tests.fidelity.textbook import everywhere, reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dsl.program import Program
    from solver.placement import Placement
    from tests.fidelity.cases import Case


class How(StrEnum):
    """How an application runs."""

    NONE = "none"
    """Without a mesh, and judged by the same program without policies."""
    FULL = "full"
    """Every service a sidecar, every policy at its textbook side; narrowing is left out."""
    COMPILED = "compiled"


class What(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    REFUSED = "refused"
    NO_TEXTBOOK = "no textbook placement"


class Result(NamedTuple):
    """The result of one case in one way of running; `detail` has the code of a refusal, or the differences."""

    case: str
    label: str
    how: str
    what: str
    detail: str = ""


def run(cases: Sequence[Case], hows: Sequence[How], folder: Path) -> list[Result]:
    """Everything that the given cases show, run in the given ways."""
    alone, refused = accepted(cases)
    taken = [case for case in cases if case.name in alone]
    by_name = {case.name: case for case in cases}
    results = [
        Result(name, by_name[name].label, how, What.REFUSED, code)
        for name, code in refused.items()
        for how in hows[-1:]
    ]
    for how in hows:
        results += _together(taken, alone, how, folder / how) if taken else []
    return results


def _together(cases: Sequence[Case], alone: Mapping[str, Placement], how: How, folder: Path) -> list[Result]:
    results: list[Result] = []
    if how is not How.COMPILED:
        # Without an ADM a CONNECT is the service's own affair; in a full mesh a sidecar without policies answers it.
        asked = (tuple(ask for ask in case.asks if ask.method != TUNNEL.method) for case in cases)
        cases = [replace(case, asks=asks) for case, asks in zip(cases, asked, strict=True)]
    taps = str(folder / "taps")
    (folder / "taps").mkdir(parents=True, exist_ok=True)
    if how is How.FULL:
        wide = [replace(case, policies=tuple(each._replace(side=None) for each in case.policies)) for case in cases]
        taken = [case for case in wide if reference(load(text([case]))) is not None]
        names = {case.name for case in taken}
        results += [Result(each.name, each.label, how, What.NO_TEXTBOOK) for each in cases if each.name not in names]
        if not taken:
            return results
    else:
        taken = list(cases)
    written = text(taken, taps, policies=how is not How.NONE)
    program = load(written)
    ran, placement = _full(written) if how is How.FULL else (program, NO_ADMS)
    if how is How.COMPILED:
        placement = together(program, taken, alone)
    seen = observe(ran, placement, taken, folder)
    judge = Judge(program, echo, ALL)
    labels = {case.name: case.label for case in cases}
    for case in taken:
        counting = case.names() if how is not How.NONE else ()
        verdict = judged(judge, case.protocol, seen[case.name], counting)
        detail = "\n".join(map(str, verdict.differences))
        results.append(
            Result(case.name, labels[case.name], how, What.EQUAL if verdict.equal else What.DIFFERENT, detail)
        )
    return results


def _full(written: str) -> tuple[Program, Placement]:
    wide = everywhere(written, FILES.__getitem__)
    placement = reference(wide)
    assert placement is not None, "each case alone has a textbook placement, and they share no call"
    return wide, placement
