"""All renderings of a difference on the same cases, against golden files, and what each of them promises.

`UPDATE_SNAPSHOTS=1 pytest tests/review/diff/rendering` writes the golden files anew.
"""

from __future__ import annotations

import doctest
import json
import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from admc.base.terminal import cells
from admc.compile.plan.model import SourceLine
from admc.review.diff.model import Cost, Counts, Diff, How, Named, Taken, Verdict, Word
from admc.review.diff.render import github as diff_github
from admc.review.diff.render import markdown as diff_markdown
from admc.review.diff.render import mermaid as diff_mermaid
from admc.review.diff.render import text as diff_text
from admc.review.diff.render import words as diff_words
from admc.review.diff.render.headline import headline
from admc.review.diff.render.markdown_sections import Section
from admc.review.diff.render.words import TEXT
from tests.review.diff.rendering.cases import (
    CASES,
    EXAMPLE,
    GATE,
    GATES,
    PLAIN,
    amount,
    cost_line,
    finding,
    line,
    taken,
)
from tests.review.diff.rendering.renderers import BLOB, RENDERERS

SNAPSHOTS = Path(__file__).parent / "snapshots"
TARGET = """\
hotel_reservation: 3 things get weaker; ADMs 4 -> 4 (+rate -search), sidecars 4 -> 4, 2 pods restart; no profile

weaker
  lost      search -> geo     no longer retried: `flaky_geo` is gone   BASE policies.adm:51
  loosened  geo -> rate       newly admitted by `rate_readers`         policies.adm:52
  loosened  * -> reservation  `booking_quota`: requests 90 -> 900      policies.adm:44
stricter: nothing
moved
  rate_readers  egress of `search` -> ingress of `rate`
    since call `geo -> rate` came (policies.adm:28)
rollout
  restart `rate` (1 pod); 4 steps, 1 wait; restart `search` (1 pod); open `rate` (NetworkPolicy)
  configuration only: frontend, reservation
"""


@pytest.mark.parametrize("name", RENDERERS)
def test_the_cases_look_as_agreed(name: str) -> None:
    found = "\n".join(f"===== {case}\n{RENDERERS[name](diff)}" for case, diff in CASES.items())
    path = SNAPSHOTS / f"diff.{name}"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@cache
def huge() -> Diff:
    """10,000 findings, calls, ADMs and moves."""
    numbers = range(10_000)
    calls = [f"service_{at} service_{at + 1}" for at in numbers]
    return replace(
        EXAMPLE,
        weaker=tuple(finding(Word.LOST, f"p{at}", calls[at], f"`p{at}` is gone", at + 1) for at in numbers),
        stricter=tuple(finding(Word.REFUSED, f"q{at}", calls[at], f"refused by `q{at}`", head=1) for at in numbers),
        gone=tuple(finding(Word.GONE_WITH_ITS_CALL, f"r{at}", calls[at], "gone", at + 1) for at in numbers),
        adms=tuple(replace(EXAMPLE.adms[0], service=f"service_{at}") for at in numbers),
        moves=tuple(replace(EXAMPLE.moves[0], policy=f"m{at}") for at in numbers),
        program=tuple(Named("call", f"service_{at} -> service_0", "came", None, line(1)) for at in numbers),
        gates=tuple(replace(GATE, name=f"g{at}", verdict=Verdict.BREACHED) for at in range(50)),
        notes=tuple(f"note {at}" for at in numbers),
    )


# ---- text ----


def test_the_text_is_the_agreed_one() -> None:
    assert diff_text.render(EXAMPLE).startswith(TARGET)


@pytest.mark.parametrize("width", [40, 60, 76, 100, 140])
@pytest.mark.parametrize("name", CASES)
def test_the_text_keeps_the_width_but_for_its_first_line(name: str, width: int) -> None:
    lines = diff_text.render(CASES[name], width=width).splitlines()
    assert all(cells(each) <= width for each in lines[1:])


def test_colour_only_where_asked() -> None:
    assert "\x1b" not in diff_text.render(EXAMPLE)
    painted = diff_text.render(EXAMPLE, colour=True)
    assert "\x1b[1;31mlost" in painted
    plain = painted
    for code in ("\x1b[1;31m", "\x1b[1m", "\x1b[33m", "\x1b[2m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert [each.rstrip() for each in plain.splitlines()] == diff_text.render(EXAMPLE).splitlines()


def test_long_lists_are_cut_and_say_where_the_rest_is() -> None:
    text = diff_text.render(huge())
    assert len(text.splitlines()) < 300
    assert "  ... and 9975 more; `--format json` has them all\n" in text


# ---- the first line ----


def verdict(diff: Diff) -> str:
    return headline(diff, TEXT).verdict


def test_no_difference_takes_the_same_program_and_figures() -> None:
    same = CASES["equal"]
    assert diff_text.render(same) == "hotel_reservation: no difference\n"
    unknown = replace(same, base=replace(same.base, inputs_sha256=None), head=replace(same.head, inputs_sha256=None))
    assert verdict(unknown) == "the program changes, the placement and protection do not"
    assert verdict(replace(same, program=CASES["program_alone"].program)).startswith("the program changes")
    assert verdict(replace(same, levels=())) == "no difference"
    assert verdict(replace(same, levels=(replace(same.levels[0], head=5),))).startswith("the program, the placement")
    assert "no difference" not in diff_text.render(replace(same, gates=GATES))
    assert "BASE was" in diff_text.render(replace(same, notes=("BASE was written by hand",)))


@pytest.mark.parametrize(
    "diff",
    [
        replace(PLAIN, base=taken("main", None, How.BROKEN, "2 errors")),
        replace(PLAIN, base=taken("main", None, How.NOTHING)),
    ],
    ids=["broken", "new"],
)
def test_no_rendering_says_that_nothing_gets_weaker_where_that_is_not_known(diff: Diff) -> None:
    for name, render in RENDERERS.items():
        shown = render(diff)
        for said in (
            "nothing gets weaker",
            "weaker: nothing\n",
            "no difference;",
            "protection do not",
            "no difference\n",
        ):
            assert said not in shown, (name, said)
    assert "nothing gets weaker" in diff_text.render(replace(EXAMPLE, weaker=()))


def test_costs_in_the_first_line() -> None:
    def said(cost: Cost) -> str:
        return headline(replace(EXAMPLE, cost=cost), TEXT).figures[-1]

    known = CASES["costs"].cost
    assert said(known) == "+0.4 cores"
    part = cost_line("cpu", amount(10**9, at_least=True), amount(8 * 10**8, at_least=True))
    assert said(replace(known, lines=(part,))) == "-0.2 cores of what is priced"
    none = cost_line("cpu", amount(0, at_least=True), amount(10**9))
    assert said(replace(known, lines=(none,))) == "cores unpriced"
    assert said(replace(known, lines=known.lines[1:])) == "no figure of cost"
    assert said(Cost("two profiles", None, ())) == "cost not compared (two profiles)"
    assert said(Cost("no plan of BASE", None, ())) == "cost not compared (no plan of BASE)"


def test_refused_calls_and_failing_gates_are_in_the_first_line() -> None:
    assert verdict(CASES["every_word"]) == "7 things get weaker (1 unclear); 2 declared calls will be refused"
    assert verdict(CASES["gates"]) == "3 things get weaker; gate `safe` fails"
    one = replace(EXAMPLE, weaker=EXAMPLE.weaker[:1])
    assert verdict(one) == "1 thing gets weaker"


@pytest.mark.parametrize("module", [diff_text, diff_words])
def test_examples_of_docstrings(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


# ---- places ----


def test_places_are_from_the_top_of_the_repository_of_their_side() -> None:
    """In the columns of the text they are from the folder of the program."""
    diff = replace(
        EXAMPLE,
        base=replace(EXAMPLE.base, path="old/mesh/policies.adm"),
        head=replace(EXAMPLE.head, path="a b/mesh/policies.plan.json"),
    )
    text, markdown = diff_text.render(diff), diff_markdown.render(diff, blob=BLOB)
    assert " BASE policies.adm:51\n" in text
    assert "(a b/mesh/policies.adm:28)" in text
    assert f"({BLOB}/{diff.base.commit}/old/mesh/policies.adm#L51)" in markdown
    assert f"({BLOB}/{diff.head.commit}/a%20b/mesh/policies.adm#L52)" in markdown
    assert "::warning file=a b/mesh/policies.adm,line=52," in diff_github.render(diff)


@pytest.mark.parametrize("commit", [None, "main", "f" * 39, "F" * 40, f"{'f' * 40}/../x"])
def test_only_a_commit_makes_links(commit: str | None) -> None:
    side: Taken = replace(EXAMPLE.head, commit=commit)
    assert "](" not in diff_markdown.render(replace(EXAMPLE, head=side, base=side), blob=BLOB)


@pytest.mark.parametrize("path", ["/etc/x.adm", "<prelude>", "../x.adm", "x" * 600])
def test_a_path_outside_of_the_repository_is_no_link(path: str) -> None:
    found = replace(EXAMPLE.weaker[1], head_line=SourceLine(path, 1))
    assert "](" not in diff_markdown.render(replace(PLAIN, weaker=(found,)), blob=BLOB)
    assert "](" not in diff_markdown.render(EXAMPLE)


# ---- Markdown ----


@pytest.mark.parametrize("name", [*CASES, "huge"])
def test_few_lines_stand_before_what_is_folded(name: str) -> None:
    before = RENDERERS["markdown"](CASES[name] if name in CASES else huge()).split("<details>")[0]
    assert len(before.splitlines()) <= diff_markdown.LINES


@cache
def whole_markdown() -> str:
    return diff_markdown.render(huge(), blob=BLOB, limit=2_000_000)


@pytest.mark.parametrize("limit", [5_000, 20_000, 65_000, 1_000_000])
def test_sections_give_way_whole_and_are_named(limit: int) -> None:
    whole = whole_markdown()
    shown = diff_markdown.render(huge(), blob=BLOB, limit=limit)
    assert len(shown.encode()) <= limit
    titles, kept = (re.findall("<summary>(.*)</summary>", each) for each in (whole, shown))
    assert [title for title in titles if title in kept] == kept
    missing = len(titles) - len(kept)
    assert missing or limit >= 65_000
    left_out = re.findall(f"Left out, to stay under {limit:,} bytes: (.*?)[.]", shown)
    assert len(left_out[0].split(", ") if left_out else []) == missing


def test_what_is_before_the_folded_part_is_cut_before_all_else() -> None:
    long = replace(EXAMPLE, weaker=tuple(replace(each, text="x " * 5_000) for each in CASES["many"].weaker))
    assert len(diff_markdown.render(long, blob=BLOB, limit=4_000).encode()) <= 4_000
    assert len(diff_markdown.render(CASES["hostile"], blob=BLOB, limit=4_000).encode()) <= 4_000


def test_long_names_are_cut_and_empty_ones_are_said() -> None:
    found = EXAMPLE.weaker[0]
    long = replace(PLAIN, app="x" * 9_000, weaker=(replace(found, text="y " * 9_000),))
    assert len(diff_markdown.render(long)) < 2_000
    assert "**(empty): " in diff_markdown.render(replace(PLAIN, app="", weaker=(found,)))


def test_a_title_is_text() -> None:
    section = Section("x", 0, "<b>&</b>", ["y"])
    assert diff_markdown.folded(section)[1] == "<summary>&lt;b&gt;&amp;&lt;/b&gt;</summary>"


# ---- the graph ----


def test_the_graph_of_a_huge_change_is_its_worst_part() -> None:
    graph = diff_mermaid.mermaid(huge())
    assert graph.count("lost: ") <= diff_mermaid.EDGES
    assert sum(each.startswith("  n") and '["' in each for each in graph.splitlines()) <= diff_mermaid.NODES
    assert 'more["not drawn: ' in graph


def test_no_graph_where_nothing_changes() -> None:
    assert diff_mermaid.mermaid(PLAIN) == ""
    assert "mermaid" not in diff_markdown.render(CASES["program_alone"])


# ---- what machines read ----


def test_the_worst_findings_are_annotated_and_the_others_counted() -> None:
    lines = diff_github.render(huge()).splitlines()
    assert len(lines) == diff_github.MOST + 1
    assert all(each.startswith("::error title=admc gate g") for each in lines[:10])
    assert lines[-1].startswith("::notice title=admc diff::")
    assert lines[-1].endswith("%0Aand 20041 more, which `admc diff` lists")
    several = diff_github.render(CASES["every_word"]).splitlines()
    assert [each.split("%3A ")[1].split("::")[0] for each in several[:-1]] == [
        *("lost", "narrowed", "loosened", "loosened", "rests on more", "reordered", "unclear", "refused")
    ]


def test_a_line_of_base_is_no_place_in_a_file_of_head() -> None:
    lost = diff_github.render(EXAMPLE).splitlines()[0]
    assert lost == (
        "::warning title=admc diff%3A lost::search -> geo: no longer retried: `flaky_geo` is gone"
        "%0ABASE policies.adm:51"
    )
    (run,) = json.loads(RENDERERS["sarif"](EXAMPLE))["runs"]
    assert run["results"][0]["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "policies.adm"}}}]
    cases = list(ElementTree.fromstring(RENDERERS["junit"](EXAMPLE)).iter("testcase"))  # noqa: S314 - our own document
    assert "file" not in cases[0].attrib
    assert (cases[1].attrib["file"], cases[1].attrib["line"]) == ("policies.adm", "52")


def test_gates_in_what_machines_read() -> None:
    diff = CASES["gates"]
    suite = ElementTree.fromstring(RENDERERS["junit"](diff)).findall("testsuite")[0]  # noqa: S314 - our own document
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) == ("5", "1", "3")
    failed = suite.find("testcase/failure/..")
    assert failed is not None
    assert failed.attrib["name"] == "safe: fail when weaker"
    (run,) = json.loads(RENDERERS["sarif"](diff))["runs"]
    gates = [result for result in run["results"] if result["ruleId"] == "gate"]
    assert [gate["level"] for gate in gates] == ["error", "warning", "warning", "warning"]
    assert [gate.get("suppressions") for gate in gates] == [
        *(None, None, [{"kind": "external", "justification": "agreed with the owners of geo"}], None)
    ]


def test_a_fingerprint_stays_when_lines_move_and_changes_with_the_finding() -> None:
    def prints(diff: Diff) -> list[str]:
        (run,) = json.loads(RENDERERS["sarif"](diff))["runs"]
        return [result["partialFingerprints"]["admcFinding/v1"] for result in run["results"]]

    found = prints(EXAMPLE)
    assert len(set(found)) == len(found)
    moved = replace(EXAMPLE, weaker=tuple(replace(each, head_line=line(99)) for each in EXAMPLE.weaker))
    assert prints(moved) == found
    renamed = replace(EXAMPLE, weaker=tuple(replace(each, policy="x") for each in EXAMPLE.weaker))
    assert not set(prints(renamed)) & set(found)


def test_counts_alone_are_a_difference() -> None:
    assert verdict(replace(PLAIN, head_counts=Counts(4, 4, 13, 1))) == "nothing gets weaker"
