"""Common reasons on the page of an advice: it is the page of the same advice with all reasons at each workload, and the
work for it grows with the file."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from admc.base.findings.report import Report
from admc.istio.document import (
    AdviceDocument,
    CitedRow,
    CommonReasonsRow,
    Line,
    ReasonRow,
    ReferenceRow,
    WorkloadRow,
    advice_of,
    json_of,
)
from admc.istio.facts import document
from admc.istio.implicit import Feature
from admc.istio.in_force.effects import Layer, What
from admc.istio.inputs.reading import Source
from admc.istio.run import Options, run
from admc.review.report import advice_page
from admc.review.report.html import render
from admc.review.report.model import Page
from admc.review.report.words import LONGEST
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.text import SourceText
from tests.istio.objects import objects
from tests.istio.oracle.meshes import random_mesh
from tests.istio.ten_meshes import DECLARED, advice
from tests.review.report.advices import of_mesh

PATH: Final = Path("ADVICE.json")
DOES: Final = ((What.ROUTE, What.POOL), (What.MUTUAL_TLS,), (What.TELEMETRY,))
"""What the reasons of one resource do: no two of them do the same."""
WORKLOADS, REASONS = 6_000, 18_000
MOST_SECONDS: Final = 6
"""About ten times what it takes. A list of each workload's reasons takes more than 20 s."""
MOST_BYTES = 10_000_000


def page_of(made: AdviceDocument) -> Page:
    return advice_page.advice_page(advice_of(json_of(made).encode(), PATH))


def of_random_mesh(seed: int) -> AdviceDocument:
    documents = random_mesh(seed).documents()
    text = SourceText("mesh.yaml", objects(*documents))
    spaces = {"shop", "bank"} & {it["metadata"].get("namespace") for it in documents}
    options = Options("default", frozenset(spaces), keep=(Feature.MTLS,) if seed % 2 else ())
    made = run([Source(text)], options, Diagnostics())
    assert made.advice is not None
    return document(made.advice, Report(made.findings, made.exit_code))


@pytest.mark.parametrize("case", DECLARED)
def test_the_page_of_a_mesh_is_the_same_with_common_reasons(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = advice(case)
    monkeypatch.setattr("admc.istio.common_reasons.MOST_REPEATED", 0)
    short = advice(case)
    assert (short.common_reasons is not None) == any(
        workload.common_reasons is not None for workload in short.workloads
    )
    assert page_of(short) == page_of(whole)


def test_the_pages_of_random_meshes_are_the_same_with_common_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(map(of_random_mesh, range(3000, 3030)))
    monkeypatch.setattr("admc.istio.common_reasons.MOST_REPEATED", 0)
    short = list(map(of_random_mesh, range(3000, 3030)))
    assert sum(made.common_reasons is not None for made in short) > 20
    assert any(it.common_reasons and it.common_reasons.without for made in short for it in made.workloads)
    for made, expected in zip(short, whole, strict=True):
        assert page_of(made) == page_of(expected)


class _Drawn:
    """An advice with common reasons, in which all is possible that a document may have: reasons of one resource,
    classes with one reason, workloads that lack all or have the same reason themselves, lists in another order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test
        self.rows = [
            ReasonRow("g", f"K a/{name}", None, does, self.random.choice(tuple(Layer)), 5 + self.random.randrange(4), 0)
            for name in range(self.random.randint(1, 6))
            for does in self.random.sample(DOES, self.random.randint(1, 3))
        ]
        self.random.shuffle(self.rows)

    def cited(self, row: ReasonRow) -> CitedRow:
        some = self.random.sample(row.does, self.random.randint(1, len(row.does)))
        does = tuple(it for it in row.does if it in some)
        return CitedRow(row.reason, Line("m", self.random.randint(1, 9)), does, self.random.choice(tuple(Layer)))

    def some(self, places: range | tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(self.random.sample(places, self.random.randint(0, len(places)))))

    def advice(self) -> AdviceDocument:
        # A list has each reason once. What it does may be less, and so another row, at another class.
        reasons = [self.cited(row) for row in self.rows for _ in range(2)]
        lists = tuple(
            tuple(2 * at + self.random.randrange(2) for at in self.some(range(len(self.rows))))
            for _ in range(self.random.randint(1, 3))
        )
        lists = tuple(tuple(self.random.sample(places, len(places))) for places in lists)
        workloads = tuple(self.workload(number, lists) for number in range(self.random.randint(2, 12)))
        return replace(
            of_mesh("principals"),
            reasons=tuple(self.rows),
            common_reasons=CommonReasonsRow(tuple(reasons), lists),
            workloads=workloads,
        )

    def workload(self, number: int, lists: tuple[tuple[int, ...], ...]) -> WorkloadRow:
        name, space = f"w-{number}", f"n-{number % 3}"
        row = replace(of_mesh("principals").workloads[0], name=name, namespace=space, sidecars=self.random.randrange(3))
        if self.random.random() < 0.2:
            own = [self.cited(self.rows[at]) for at in self.some(range(len(self.rows)))]
            return replace(row, reasons=tuple(own), common_reasons=None)
        chosen = self.random.randrange(len(lists))
        without = self.some(lists[chosen])
        left = {place // 2 for place in lists[chosen]} - {place // 2 for place in without}
        own = [self.cited(self.rows[at]) for at in self.some(range(len(self.rows))) if at not in left]
        self.random.shuffle(own)
        return replace(row, reasons=tuple(own), common_reasons=ReferenceRow(chosen, without))


def written_out(made: AdviceDocument) -> AdviceDocument:
    """The same advice, with all reasons at each workload."""
    common = made.common_reasons
    assert common is not None

    def rank(cited: CitedRow) -> int:
        (at,) = (
            at for at, row in enumerate(made.reasons) if row.reason == cited.reason and set(cited.does) <= set(row.does)
        )
        return at

    def all_of(row: WorkloadRow) -> Iterator[CitedRow]:
        if row.common_reasons is not None:
            places = common.lists[row.common_reasons.list]
            yield from (common.reasons[place] for place in places if place not in row.common_reasons.without)
        yield from row.reasons

    workloads = (replace(it, reasons=tuple(sorted(all_of(it), key=rank)), common_reasons=None) for it in made.workloads)
    return replace(made, common_reasons=None, workloads=tuple(workloads))


@pytest.mark.parametrize("most", [2, 50])
def test_any_common_reasons_give_the_page_of_the_reasons_written_out(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice_page, "MOST_LISTED", most)
    monkeypatch.setattr(advice_page, "_MOST_CITED", most)
    for seed in range(100):
        made = _Drawn(seed).advice()
        assert page_of(made) == page_of(written_out(made)), seed


def large(case: str, number: int = WORKLOADS, of_reasons: int = REASONS) -> AdviceDocument:
    """6,000 workloads that have 18,000 reasons in common: 108 million reasons, written out."""
    one_resource = case == "one resource"
    reasons = tuple(
        CitedRow(
            "DestinationRule a/d" if one_resource else f"VirtualService a/{at}", Line("m", 1 + at), (What.ROUTE,), 7
        )
        for at in range(of_reasons)
    )
    row = replace(of_mesh("principals").workloads[0], reasons=(), sidecars=2)
    lacking = {"whole": lambda _: (), "without the first": lambda _: (0, 1), "without one": lambda at: (at,)}
    without = lacking.get(case, lambda _: (0,))
    workloads = tuple(
        replace(row, name=f"app-{at}", namespace=f"team-{at % 30}", common_reasons=ReferenceRow(0, without(at)))
        for at in range(number)
    )
    rows = tuple(ReasonRow("g", it.reason, it.location, it.does, it.layer, 2 * number, 0) for it in reasons)
    return replace(
        of_mesh("principals"),
        reasons=rows,
        common_reasons=CommonReasonsRow(reasons, (tuple(range(of_reasons)),)),
        workloads=workloads,
    )


@pytest.mark.parametrize("case", ["whole", "without the first", "without one", "one resource"])
def test_a_mesh_in_which_all_may_call_all_becomes_a_page_in_bounded_time(case: str) -> None:
    made = large(case)
    began = time.process_time()
    page = advice_page.advice_page(made)
    assert time.process_time() - began < MOST_SECONDS
    assert len(render(page)) < MOST_BYTES
    drawn = next(it for it in page.sections if it.title == "Sidecars by reason").bars
    no_workload = 2 if case == "without the first" else 0
    rows = [0] * no_workload + [advice_page.MOST_LISTED] * (advice_page.MOST_REASONS - no_workload)
    assert [len(bar.rows) for bar in drawn] == rows


def test_lists_of_their_own_for_workloads_count_once_for_all_bars_with_their_reason() -> None:
    """20,000 lists, each with the one reason of 100 bars."""
    made = large("one resource", number=20_000, of_reasons=1)
    assert made.common_reasons is not None
    lists = ((0,),) * 20_000
    workloads = tuple(
        replace(it, common_reasons=ReferenceRow(at, (0,) if at % 2 else ())) for at, it in enumerate(made.workloads)
    )
    common = replace(made.common_reasons, lists=lists)
    shown = replace(made, reasons=made.reasons * 100, common_reasons=common, workloads=workloads)
    began = time.process_time()
    page = advice_page.advice_page(shown)
    assert time.process_time() - began < MOST_SECONDS
    drawn = next(it for it in page.sections if it.title == "Sidecars by reason").bars
    assert {(len(bar.rows), bar.note) for bar in drawn} == {(50, "And 9950 more workloads: the JSON has them all.")}


def test_a_page_takes_the_memory_of_the_file_and_not_of_all_reasons_of_all_workloads() -> None:
    made = large("without one", 3_000, 6_000)
    tracemalloc.start()
    try:
        advice_page.advice_page(made)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000 * 6_000 * 8 / 4, "a reference to each reason of each workload takes 8 bytes"


def test_a_long_name_that_workloads_share_is_cut() -> None:
    """The page repeats it for each of them."""
    name, path = "n" * 1_000_000, "p" * 1_000_000
    made = large("whole")
    assert made.common_reasons is not None
    cited = tuple(replace(it, reason=name, location=Line(path, 1)) for it in made.common_reasons.reasons[:2])
    rows = tuple(replace(made.reasons[0], reason=name, does=it.does) for it in cited)
    text = render(page_of(replace(made, reasons=rows, common_reasons=CommonReasonsRow(cited, ((0, 1),)))))
    for letter in (b"n", b"p"):
        assert letter * LONGEST + b"..." in text
        assert letter * (LONGEST + 1) not in text
    assert len(text) < MOST_BYTES
