"""Equal trees become one request, and what they are called and how files are cut changes nothing."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from admc.cost.traces import requests_adm
from admc.cost.traces.requests import imported
from tests.bench.traces import generate
from tests.cli.command import Admc
from tests.cost.traces import reference
from tests.cost.traces.samples import PROGRAM, Call, csv, rows

WHOLE = Fraction(1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate.write(tmp_path_factory.mktemp("traces"), 400, seed=11, defects=0.1).csv


def _shape(node: reference.Node) -> Any:
    waited = sorted(
        (child for child in node.children if child.end <= node.finished + reference.ROUNDING),
        key=lambda child: (child.begin, -child.end),
    )
    late = sorted(_shape(child) for child in node.children if child not in waited)
    groups: list[list[reference.Node]] = []
    for child in waited:
        if groups and child.begin < max(each.end for each in groups[-1]) - reference.ROUNDING:
            groups[-1].append(child)
        else:
            groups.append([child])
    together = sorted(sorted(_shape(child) for child in group) for group in groups)
    return node.source, node.destination, late, together


def test_shapes_are_those_of_plain_trees(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.cost.traces.requests.MAX_REQUESTS", 10_000)
    program = dsl.load_text(generate.program())
    known = [(call.source, call.destination) for call in program.calls]
    expected: Counter[str] = Counter()
    for trace in reference.read(written).values():
        try:
            expected[repr(_shape(reference.tree(trace, known, "users")))] += 1
        except reference.WrongError:
            continue
    found = imported(program, [written], WHOLE)
    assert sorted(request.traces for request in found.requests) == sorted(expected.values())
    assert expected.total() == found.taken.trees
    assert len(expected) < expected.total()


@pytest.mark.parametrize("with_program", [pytest.param(True, marks=pytest.mark.long), False])
def test_order_and_parts_change_no_byte(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_program: bool
) -> None:
    program = dsl.load_text(generate.program()) if with_program else None
    expected = requests_adm.render(imported(program, [written], WHOLE))
    head, *lines = written.read_text().splitlines()
    order = np.random.default_rng(2).permutation(len(lines))
    files = tmp_path / "one.csv", tmp_path / "other.csv"
    for file, chosen in zip(files, (order[::2], order[1::2]), strict=True):
        file.write_text("\n".join([head, *(lines[at] for at in chosen)]) + "\n")
    monkeypatch.setattr("admc.cost.traces.rows.PART_ROWS", 900)
    assert requests_adm.render(imported(program, files, WHOLE)) == expected
    assert "request s0_" in expected


def test_the_most_frequent_shapes_are_written(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.cost.traces.requests.MAX_REQUESTS", 1)
    plain = [Call("0", "", "web", 0, 50)]
    table = [row for at in range(4) for row in rows(plain, trace=f"t{at}", at=at * 1000)]
    file = csv(tmp_path / "calls.csv", [*rows(trace="other", at=4000), *table])
    run = admc("import", "traces", file)
    assert run.code == 0
    assert run.out.startswith("// Of traces: 4 requests with 4 calls, 0.8 requests/s.\n\n// 4 traces\nrequest web on")
    # The rate of a shape is its share of all requests.
    assert "rate 0.8/s" in run.out
    assert "dropped 1 request with 6 calls (ADM895)" in run.err


def test_work_is_a_mean_and_repetitions_are_counted(admc: Admc, tmp_path: Path) -> None:
    def calls(spent: int) -> list[Call]:
        inner = [Call(f"0.{at}", "web", "search", at * 10, at * 10 + spent, own_span=False) for at in (1, 2, 3)]
        return [Call("0", "", "web", 0, 52), *inner]

    file = csv(tmp_path / "calls.csv", rows(calls(3)) + rows(calls(6), trace="t2", at=3000))
    out = admc("import", "traces", file).out
    assert "call search { times 3  work 4500us }" in out
    assert "  work 36500us\n" in out


def test_a_single_trace_has_no_rate(admc: Admc, tmp_path: Path) -> None:
    out = admc("import", "traces", csv(tmp_path / "calls.csv", rows())).out
    assert "rate 1" not in out
    assert "rate 0" not in out
    assert dsl.load_text(PROGRAM + out).requests[0].rate is None


def test_names_that_the_language_does_not_allow_are_dropped(admc: Admc, tmp_path: Path) -> None:
    odd = [Call("0", "", "web", 0, 50), Call("0.1", "web", "a\u202eb c", 5, 9)]
    run = admc("import", "traces", csv(tmp_path / "calls.csv", rows() + rows(odd, trace="odd")))
    assert run.code == 0
    assert "ADM889" in run.err
    assert "\u202e" not in run.err + run.out


@pytest.mark.parametrize("name", ["UNKNOWN", "USER", "(?)", ""])
def test_a_callee_that_is_not_recorded_is_no_service(admc: Admc, tmp_path: Path, name: str) -> None:
    """Different services stand behind such a name, so it may not become one service."""
    odd = [Call("0", "", "web", 0, 50), Call("0.1", "web", name, 5, 9)]
    run = admc("import", "traces", csv(tmp_path / "calls.csv", rows() + rows(odd, trace="odd")))
    assert (run.code, "ADM889" in run.err, f"`{name or '(no name)'}`" in run.err) == (0, True, True), run.err
    assert "UNKNOWN" not in run.out


@pytest.mark.parametrize("longer", ["web_1", "w" * 200])
def test_no_two_requests_have_one_name(admc: Admc, tmp_path: Path, longer: str) -> None:
    """Also if a service has the name that a request of another would get, and if a name is as long as it may be."""
    one, other = ("web", longer) if longer == "web_1" else (longer, "web")
    calls = [Call("0", "", one, 0, 50), Call("0.1", one, "api", 5, 9)]
    table = rows(calls[:1]) + rows(calls, trace="t2") + rows([Call("0", "", other, 0, 50)], trace="t3")
    out = admc("import", "traces", csv(tmp_path / "calls.csv", table)).out
    program = (
        f"app shop\nexternal internet\nservice {one}, {other}, api {{ http 80 }}\ncall internet -> {one}, {other}\n"
    )
    assert len(dsl.load_text(f"{program}call {one} -> api\n{out}").requests) == 3
