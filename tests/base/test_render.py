"""All renderers on the same cases, against golden files, and what must hold of them for any input."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from admc.base.findings.report import Format, Report, counts
from admc.base.terminal import visible
from admc.cli.output import render
from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity
from dsl.text import SourceText, Span
from tests.base.cases import CASES
from tests.properties import examples

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("format_", list(Format))
def test_the_cases_look_as_agreed(format_: Format) -> None:
    documents = [f"===== {name}\n{render(report, format_)}" for name, report in CASES.items()]
    found = "\n".join(documents)
    path = SNAPSHOTS / f"findings.{format_.value}"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


texts = st.text(max_size=60)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    source = SourceText(draw(texts), draw(st.text(max_size=300)))
    start = draw(st.integers(0, len(source.text)))
    span = Span(source, start, draw(st.integers(start, len(source.text))))
    item = Diagnostic(
        "ADM101",
        draw(st.sampled_from(Severity)),
        draw(texts),
        draw(st.none() | st.just(span)),
        draw(st.none() | texts),
        draw(st.none() | texts),
        (Related(span, draw(texts)),),
    )
    return Report((item,), 1, draw(st.sampled_from(["", "a/b"])))


@examples(150)
@given(reports())
def test_no_input_takes_over_the_output(report: Report) -> None:
    """Only line breaks of the renderer itself have an effect on the terminal, and none starts another command."""
    for format_ in Format:
        document = render(report, format_)
        assert document.endswith("\n")
        assert all(character == "\n" or character.isprintable() for character in document), format_
    assert len(render(report, Format.GITHUB).splitlines()) == 1
    for format_ in (Format.JSON, Format.SARIF):
        assert json.loads(render(report, format_))


pieces = st.lists(
    st.sampled_from(
        ["`", "``", "|", "\\", "<b>", "@all", "#1", "**", "_", "[x](y)", "www.x.y", "a", " ", "\n", "![", "&lt;"]
    )
    | st.text(max_size=5),
    max_size=12,
).map("".join)


def inline(markdown: str) -> list[Token]:
    """The elements of a paragraph or a cell, for which the text is parsed as a code host does."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    return [child for token in tokens for child in token.children or []]


@examples(300)
@given(pieces)
def test_markdown_shows_no_markup_of_the_user(message: str) -> None:
    """All of a message is there, as text or code, and nothing of it that a code host takes for a name is text."""
    from admc.base.findings.markdown import prose

    found = inline(f"x {prose(message)} x")
    assert {token.type for token in found} <= {"text", "code_inline", "text_special"}
    shown = "".join(token.content for token in found).replace("`", "").replace(" ", "")
    assert shown == f"x{visible(message)}x".replace("`", "").replace(" ", "")
    assert not re.search(r"@|#\d|://|www\.", "".join(token.content for token in found if token.type != "code_inline"))


@examples(300)
@given(pieces)
def test_a_cell_of_a_table_ends_where_it_should(message: str) -> None:
    from admc.base.findings.markdown import cell, code, prose

    for shown in (prose(message), code(message)) if message.strip() else ():
        table = f"| a | b |\n|---|---|\n| x{cell(shown)}x | y |\n"
        outside, inside = inline(f"x{shown}x\n"), inline(table)[2:]
        assert [token.content for token in inside] == [*(token.content for token in outside), "y"]


def test_that_there_may_be_more_than_is_shown_is_said() -> None:
    finding = Diagnostic("ADM001", Severity.ERROR, "wrong", None)
    assert counts((finding,) * 99) == "99 errors"
    assert counts((finding,) * 100) == "100 errors (at most 100 are shown: there may be more)"


def test_colour_only_where_asked() -> None:
    report = CASES["error_with_hint"]
    assert "\x1b" not in render(report, Format.TEXT)
    assert "\x1b[1;31m" in render(report, Format.TEXT, colour=True)


@pytest.mark.parametrize("name", ["tabs", "wide_characters", "long_line"])
def test_the_mark_is_under_what_it_means(name: str) -> None:
    from admc.base.terminal import cells

    (item,) = CASES[name].diagnostics
    assert item.span is not None
    lines = render(CASES[name], Format.TEXT).splitlines()
    source, mark = next((lines[i - 1], line) for i, line in enumerate(lines) if "^" in line)
    before = cells(mark.split("^")[0])
    at = 0
    while cells(source[:at]) < before:
        at += 1
    assert source[at:].startswith(item.span.text)
    assert mark.count("^") == cells(item.span.text)


def test_sarif_places_count_characters_and_encode_paths() -> None:
    document = json.loads(render(CASES["related_lines_in_a_folder"], Format.SARIF))
    (run,) = document["runs"]
    location = run["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "examples/my%20shop/policies.adm"
    assert location["region"] == {"startLine": 5, "startColumn": 8, "endLine": 5, "endColumn": 13}
    assert run["columnKind"] == "unicodeCodePoints"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["ADM102", "ADM401", "ADM423"]
    assert run["results"][0]["ruleIndex"] == 0
