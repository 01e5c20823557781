"""The page of an advice: its numbers are those of the meshes that were counted by hand, and it is bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from admc.istio.document import AdviceDocument, CallsRow, PriceRow
from admc.istio.in_force.effects import What
from admc.istio.text import render as as_text
from admc.review.report import advice_lists, advice_page
from admc.review.report.html import data_block, render
from admc.review.report.model import Bar, Page, Section
from tests.istio.ten_meshes import COUNTS, DECLARED, outcome
from tests.review.report.advices import REASONS, hostile, large, of_mesh
from tests.review.report.markup import Markup
from tests.review.report.programs import HOSTILE

MOST_BYTES = 4_000_000


def page_of(advice: AdviceDocument) -> Page:
    return advice_page.advice_page(advice)


def section(page: Page, title: str) -> Section:
    (titled,) = (it for it in page.sections if it.title.startswith(title))
    return titled


def bars(page: Page, title: str) -> dict[str, str]:
    """The bars of a group of `Sidecars today`."""
    groups = {group.title: group.bars for group in section(page, "Sidecars today").groups}
    return {bar.label: bar.text for bar in groups.get(title, ())}


def reason(page: Page, name: str) -> Bar:
    (labelled,) = (bar for bar in section(page, "Sidecars by reason").bars if bar.label.startswith(f"{name}:"))
    return labelled


@pytest.mark.parametrize("case", DECLARED)
def test_the_numbers_are_those_that_were_counted(case: str) -> None:
    expected = COUNTS[case]
    page = page_of(of_mesh(case))
    kept, layer_4 = expected["kept"], expected["layer_4"]
    assert bars(page, "Sidecars by what they are needed for") == {
        "layer 7": str(kept - layer_4),
        "layer 4 alone": str(layer_4),
        "no reason": str(expected["sidecars"] - kept),
    }
    by_name = {
        name: f"{number}, {alone} by it alone, layer {layer}"
        for name, (number, alone, layer) in expected["reasons"].items()
    }
    drawn = section(page, "Sidecars by reason").bars
    assert {bar.label.partition(":")[0].partition(" [")[0]: bar.text for bar in drawn} == by_name
    assert [bar.fraction for bar in drawn] == sorted((bar.fraction for bar in drawn), reverse=True)
    unasked = section(page, "What no resource asks for").rows
    assert {cells[1].text.split("`")[1].removeprefix("--keep "): int(cells[2].text) for cells in unasked} == expected[
        "unasked"
    ]
    assert len(section(page, "Written").rows) == expected["not_in_force"]


@pytest.mark.parametrize("case", DECLARED)
def test_the_head_is_that_of_the_text(case: str) -> None:
    made = outcome(case).advice
    assert made is not None
    text = as_text(made)
    facts = page_of(of_mesh(case)).facts
    assert len(facts) >= 4
    for sentence in facts:
        assert sentence in text


def test_a_reason_lists_its_workloads_with_their_lines() -> None:
    page = page_of(of_mesh("principals"))
    pay = reason(page, "AuthorizationPolicy shop/pay-callers")
    assert (pay.look, pay.fraction, pay.solid) == ("layer4", 1.0, 0.75)
    rows = {cells[0].text: [cell.text for cell in cells[1:]] for cells in pay.rows}
    assert sum(int(cells[0]) for cells in rows.values()) == 4
    assert rows["shop/cart (Deployment)"][:4] == [
        "1",
        "4",
        "the identity of the caller",
        "AuthorizationPolicy shop/cart-callers",
    ]
    assert all(cells[-1].startswith("principals.yaml:") for cells in rows.values())
    # Those that it alone keeps come first.
    assert [cells[4].text == "none" for cells in pay.rows] == sorted(
        (cells[4].text == "none" for cells in pay.rows), reverse=True
    )


def test_a_resource_with_two_reasons_lists_the_workloads_of_each() -> None:
    made = of_mesh("principals")
    first = made.reasons[0]
    pools, tls = (What.POOL, What.BALANCING), (What.MUTUAL_TLS,)
    reasons = tuple(replace(first, does=does, reason="DestinationRule shop/d", sidecars=1) for does in (pools, tls))
    cited = replace(made.workloads[0].reasons[0], reason="DestinationRule shop/d")
    workloads = tuple(
        replace(made.workloads[at], sidecars=1, reasons=(replace(cited, does=does),))
        for at, does in enumerate(((What.POOL,), tls))
    )
    names = [f"{it.namespace}/{it.name}" for it in workloads]
    listed = section(page_of(replace(made, reasons=reasons, workloads=workloads)), "Sidecars by reason").bars
    assert [[(cells[0].text, cells[3].text) for cells in bar.rows] for bar in listed] == [
        [(f"{names[0]} (Deployment)", "connection pools")],
        [(f"{names[1]} (Deployment)", "mTLS that the client begins")],
    ]


@pytest.mark.parametrize("case", DECLARED)
def test_the_workloads_of_a_reason_add_up_to_its_sidecars(case: str) -> None:
    for bar in section(page_of(of_mesh(case)), "Sidecars by reason").bars:
        assert sum(int(cells[1].text) for cells in bar.rows) == int(bar.text.split(",")[0])


def test_a_sidecar_without_a_reason_is_listed() -> None:
    page = page_of(of_mesh("grpc"))
    assert section(page, "Sidecars by reason").note.startswith("No sidecar does anything")
    rows = section(page, "Sidecars without a reason").rows
    assert sum(int(cells[1].text) for cells in rows) == 6
    assert section(page_of(of_mesh("deny_all")), "Sidecars without a reason").note == "Each sidecar has a reason."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"calls": None}, "No calls were given"),
        ({"calls": CallsRow("the pods", True, None, 3, 0, 0, ())}, "The calls are guessed"),
        ({"skipped": 2}, "Without 2 objects or documents that were refused: these numbers lack them."),
        ({"revisions": ()}, "Istio's defaults are taken"),
    ],
)
def test_what_makes_the_numbers_uncertain_stands_at_the_top(change: dict[str, object], words: str) -> None:
    known = replace(of_mesh("principals"), calls=CallsRow("calls.json", False, 7.0, 3, 2, 0, ()))
    changed = replace(known, **change)  # type: ignore[arg-type]
    assert any(words in doubt for doubt in page_of(changed).doubts)
    if "revisions" not in change:
        assert not any(words in doubt for doubt in page_of(known).doubts)
    assert "3 calls of calls.json over 7.0 days (and 2 of callers without a name)" in page_of(known).facts


def test_without_sidecars_no_resource_is_said_to_be_in_force() -> None:
    made = replace(of_mesh("ambient"), not_in_force=())
    without = replace(made, sidecars=replace(made.sidecars, today=0))
    title = "Written, and in force nowhere"
    assert section(page_of(without), title).note == "There are no sidecars."
    assert section(page_of(made), title).note == "Every resource for sidecars is in force at some."


def test_the_price_of_what_is_free_is_a_sentence() -> None:
    priced = replace(of_mesh("grpc"), price=PriceRow(6, "p", "0" * 64, "m", True, 0.5, None))
    assert any("take at least 0.5 cores at rest, by the profile p (m)" in fact for fact in page_of(priced).facts)


def test_a_large_mesh_is_bounded_and_says_so() -> None:
    page = page_of(large())
    drawn = section(page, "Sidecars by reason")
    assert (len(drawn.bars), drawn.note) == (advice_page.MOST_REASONS, "And 200 more reasons: the JSON has them all.")
    assert {len(bar.rows) for bar in drawn.bars} == {advice_page.MOST_LISTED}
    assert drawn.bars[0].note == "And 2450 more workloads: the JSON has them all."
    free = section(page, "Sidecars without a reason")
    assert (len(free.rows), free.note) == (2000, "And 500 more workloads: the JSON has them all.")
    assert section(page, "All workloads (5,000)").note == "And 3000 more workloads: the JSON has them all."
    assert len(section(page, "Sidecars by namespace").bars) == advice_page.MOST_NAMESPACES
    assert len(section(page, "Written").rows) == advice_lists.MOST_ROWS
    assert f"and {REASONS - 5} more" in section(page, "All workloads").rows[1][5].text
    assert len(render(page)) < MOST_BYTES


def test_hostile_names_are_data() -> None:
    page = page_of(hostile())
    markup = Markup(render(page))
    assert json.loads(markup.block("script", "application/json")[0]) == json.loads(data_block(page))
    assert len(markup.block("script")) == 2
    shown = data_block(page)
    for text in HOSTILE[:4]:
        assert json.dumps(text)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e") in shown
    assert "\u202e" not in json.loads(shown)["title"] + str(json.loads(shown)["sections"])


def test_the_same_advice_gives_the_same_bytes() -> None:
    assert render(page_of(large())) == render(page_of(large()))


def test_a_page_needs_none_of_the_libraries_that_the_advice_needs() -> None:
    program = (
        "import sys; import admc.review.report.advice_page;"
        "print([name for name in ('celpy', 'jsonschema_rs') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
