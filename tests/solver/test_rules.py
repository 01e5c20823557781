"""Hand-written cases of rules R1 to R10: one small program a file in `cases/`, with what has to come of it on top.

The first comment says what the case is about. The lines after it are read here:

    placed: POLICY@DESTINATION SIDE, ...      every decision there is
    adms: SERVICE (ingress P Q, egress R); ...     every ADM, its policies in order; or none
    closed: DESTINATION ...                   or none
    impossible: RULE: LINE, ...               no placement: a rule that says why, lines that the conflict names
    error: LINE                               not a program: a line that the error points at (it starts like this)
    refused: LINE                             either of the two, naming this line
    costs: SERVICE CPU; HOST/SIDE/POLICY/DESTINATION CPU; ...     micro-cores; a hop: HOST/SIDE/DESTINATION:PORT CPU
    previous: POLICY@DESTINATION SIDE, ...    an earlier plan
    previous_adms: SERVICE ...                services that have an ADM in it; unless given, none

What is placed is shown to the verifier, and to the oracle of the random tests, too. So is every other choice of sides,
right or wrong: both name the same broken rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from dsl import load_text
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Place, Program, Side
from dsl.text import Span
from solver.place import place
from solver.placement import Cost, Costs, Hop, Placement, PlacementError, Previous
from solver.verify.verifier import verify
from tests.solver import build, oracle

CASES = sorted((Path(__file__).parent / "cases").glob("*.adm"))
FILTER = b"'@type': type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer\nmax_request_bytes: 1\n"
FILES = {"x.lua": b"function envoy_on_request(handle) end\n", "both.yaml": FILTER, "mine.yaml": FILTER}
DIRECTIVES = ("placed", "adms", "closed", "impossible", "error", "refused", "costs", "previous", "previous_adms")


class Case(NamedTuple):
    text: str
    expected: dict[str, str]

    @property
    def costs(self) -> Costs:
        adm: dict[str, Cost] = {}
        hops: dict[Hop, Cost] = {}
        shares: dict[tuple[str, Side, str, str], Cost] = {}
        for item in _items(self.expected.get("costs", ""), ";"):
            name, micro = item.split()
            cost = Cost(int(micro) * 1_000)
            match name.split("/"):
                case [host]:
                    adm[host] = cost
                case [host, side, hop]:
                    destination, port = hop.split(":")
                    hops[Hop(host, Side(side), destination, int(port))] = cost
                case [host, side, policy, destination]:
                    shares[(host, Side(side), policy, destination)] = cost
        return Costs(adm, shares, known="costs" in self.expected, hop=hops)

    @property
    def previous(self) -> Previous | None:
        if "previous" not in self.expected:
            return None
        return Previous(_places(self.expected["previous"]), frozenset(self.expected.get("previous_adms", "").split()))


def read(path: Path) -> Case:
    text = path.read_text(encoding="utf-8")
    expected: dict[str, str] = {}
    for line in text.splitlines():
        word, colon, rest = line.removeprefix("// ").partition(":")
        if line.startswith("// ") and colon and word in DIRECTIVES:
            assert word not in expected, f"{path.name} says `{word}` twice"
            expected[word] = rest.strip()
    return Case(text, expected)


def _items(text: str, separator: str) -> list[str]:
    return [] if text in ("", "none") else [item.strip() for item in text.split(separator)]


def _places(text: str) -> dict[tuple[str, str], Place]:
    found = {}
    for item in _items(text, ","):
        name, *ends = item.split()
        policy, destination = name.split("@")
        found[(policy, destination)] = Place(ends[0]) if len(ends) == 1 else Place.BOTH
    return found


def _load(case: Case) -> Program:
    return load_text(case.text, "case.adm", FILES.__getitem__)


def _lines(spans: list[Span | None]) -> list[str]:
    """The source line of each span, and each line of a statement that a span covers."""
    found = []
    for span in spans:
        if span is not None:
            last = span.source.position(max(span.start, span.end - 1))[0]
            found += [span.source.line(number).strip() for number in range(span.line, last + 1)]
    return found


def _name(placement: Placement) -> str:
    found = []
    for adm in placement.adms:
        ways = [" ".join((side, *names)) for side, names in (("ingress", adm.ingress), ("egress", adm.egress)) if names]
        found.append(f"{adm.service} ({', '.join(ways)})")
    return "; ".join(found) or "none"


def _check_impossible(case: Case, error: PlacementError) -> None:
    rule, _, lines = case.expected["impossible"].partition(":")
    assert rule in {reason.rule.value for reason in error.reasons}
    named = _lines([part.span for part in error.parts])
    for start in _items(lines, ","):
        assert any(line.startswith(start) for line in named), f"the conflict does not name `{start}` but {named}"
    for part in error.parts:
        assert part.message
        assert part.remedy


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = read(path)
    if "error" in case.expected or "refused" in case.expected:
        start = case.expected.get("error", case.expected.get("refused", ""))
        with pytest.raises(ProgramError if "error" in case.expected else (ProgramError, PlacementError)) as refused:
            place(_load(case), case.costs)
        if isinstance(refused.value, ProgramError):
            spans = [diagnostic.span for diagnostic in refused.value.diagnostics]
        else:
            spans = [part.span for part in refused.value.parts]
        assert any(line.startswith(start) for line in _lines(spans)), _lines(spans)
        return
    program = _load(case)
    for sides in oracle.assignments(program, only_possible=False):
        found = verify(program, build.placement(program, sides, case.costs), case.costs)
        assert {violation.rule for violation in found} == oracle.broken(program, sides, case.costs), sides
    if "impossible" in case.expected:
        with pytest.raises(PlacementError) as impossible:
            place(program, case.costs)
        _check_impossible(case, impossible.value)
        assert oracle.best(program, case.costs) == []
        return
    placement = place(program, case.costs, previous=case.previous)
    assert verify(program, placement, case.costs) == ()
    taken = {(decision.policy, decision.destination): decision.place for decision in placement.decisions}
    assert taken == _places(case.expected["placed"])
    assert _name(placement) == case.expected["adms"]
    assert (" ".join(placement.closed) or "none") == case.expected["closed"]
    assert oracle.values(program, taken, case.costs) == oracle.best(program, case.costs)[0][0]


def test_there_are_cases_for_every_rule() -> None:
    assert len(CASES) >= 70
    for number in range(1, 11):
        assert sum(path.name.startswith(f"r{number:02}-") for path in CASES) >= 4


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_says_what_it_expects(path: Path) -> None:
    expected = read(path).expected
    outcomes = [word for word in ("placed", "impossible", "error", "refused") if word in expected]
    assert len(outcomes) == 1
    assert ("adms" in expected) == ("closed" in expected) == ("placed" in expected)
