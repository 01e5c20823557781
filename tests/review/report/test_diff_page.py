"""The page of a difference: what gets weaker comes first, and every finding, move and gate is on it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from admc.review.diff.model import Word
from admc.review.report.diff_page import diff_page
from admc.review.report.html import data_block, render
from admc.review.report.model import Page, Section
from tests.review.diff.rendering.cases import CASES, COSTS, EVERY_WORD, EXAMPLE, GATES, MANY
from tests.review.report.markup import Markup


def titles(sections: tuple[Section, ...]) -> list[str]:
    return [section.title for section in sections]


def rows(page: Page, title: str) -> list[list[str]]:
    (found,) = (section for section in (*page.lead, *page.sections) if section.title == title)
    return [[cell.text for cell in row] for row in found.rows]


@pytest.mark.parametrize("name", CASES)
def test_every_difference_has_a_page_with_all_its_findings(name: str) -> None:
    diff = CASES[name]
    page = diff_page(diff)
    shown = [row[0] for section in (*page.lead, *page.sections) for row in ([c.text for c in r] for r in section.rows)]
    for word in Word:
        findings = (*diff.weaker, *diff.stricter, *diff.gone)
        assert shown.count(word.value) == sum(finding.word is word for finding in findings)
    markup = Markup(render(page))
    assert markup.tags == Markup(render(diff_page(EXAMPLE))).tags
    assert json.loads(markup.block("script", "application/json")[0]) == json.loads(data_block(page))


def test_weaker_stands_before_the_graph_and_stricter_after_it() -> None:
    page = diff_page(EVERY_WORD)
    assert titles(page.lead) == ["Weaker", "Declared calls that will be refused"]
    words = [row[0] for row in rows(page, "Weaker")]
    assert words == [finding.word.value for finding in EVERY_WORD.weaker]
    assert rows(page, "Declared calls that will be refused")[0][0] == "refused"
    assert titles(page.sections)[:4] == ["Before and after", "Moved", "Rollout", "Stricter"]


def test_a_failing_gate_is_the_first_thing() -> None:
    page = diff_page(replace(EXAMPLE, gates=GATES))
    assert titles(page.lead)[0] == "Gates"
    assert [row[:2] for row in rows(page, "Gates")] == [
        ["fails", "safe"],
        ["warns", "few"],
        ["not judged", "cores"],
        ["accepted", "kept"],
        ["passed", "calm"],
    ]


def test_adms_come_and_go_in_the_graph_and_one_side_alone_has_the_new_call() -> None:
    page = diff_page(EXAMPLE)
    assert page.compares
    states = {node.name: node.state for node in page.nodes}
    assert (states["rate"], states["search"], states["geo"]) == ("came", "gone", "same")
    names = [node.name for node in page.nodes]
    looks = {(names[edge.source], names[edge.target]): (edge.look, edge.only) for edge in page.edges}
    assert looks["geo", "rate"] == ("weaker", "head")
    assert looks["search", "geo"] == ("weaker", "")


def test_the_panel_of_a_service_says_what_changes_and_why() -> None:
    page = diff_page(EXAMPLE)
    (rate,) = (node for node in page.nodes if node.name == "rate")
    panel = {section.title: [[cell.text for cell in row] for row in section.rows] for section in rate.panel}
    assert ["policies that come", "rate_readers"] in panel["ADM"]
    assert panel["Why it moved"][0][0] == "rate_readers"
    assert panel["Calls to it"][0][:2] == ["geo", "loosened"]


def test_costs_of_both_sides_are_bars() -> None:
    (figures,) = (section for section in diff_page(COSTS).sections if section.title == "Before and after")
    priced = [group for group in figures.groups if "cores" in group.title]
    assert [bar.label for bar in priced[0].bars] == ["before", "after"]
    assert max(bar.fraction for bar in priced[0].bars) == 1.0


def test_no_cost_is_made_up() -> None:
    (figures,) = (section for section in diff_page(EXAMPLE).sections if section.title == "Before and after")
    assert [group.title for group in figures.groups] == ["ADMs", "sidecars", "closed destinations"]
    assert "no profile" in figures.note


def test_a_change_beyond_the_bound_of_the_graph_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.review.report.graph.MOST_NODES", 20)
    page = diff_page(replace(EXAMPLE, weaker=MANY))
    assert len(page.nodes) == 20
    assert any("leaves out" in doubt for doubt in page.doubts)
    assert len(rows(page, "Weaker")) == len(MANY)


def test_nothing_to_draw_is_said() -> None:
    page = diff_page(CASES["equal"])
    assert not page.nodes
    assert "nothing to draw" in page.graph_note
    assert page.lead[0].note == "Nothing."


def test_a_broken_base_is_not_called_safe() -> None:
    page = diff_page(CASES["broken_base"])
    assert "broken" in page.lead[-1].note
    assert any("BASE is broken" in doubt for doubt in page.doubts)
