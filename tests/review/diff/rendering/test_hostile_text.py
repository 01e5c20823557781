"""Text of users in every string of a difference: it stays text, in each format."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from admc.compile.plan.model import SourceLine
from admc.review.diff.model import Diff
from admc.review.diff.render.mermaid import mermaid
from tests.properties import examples
from tests.review.diff.rendering.cases import CASES, EXAMPLE, GATES, MTLS, UNPROVEN
from tests.review.diff.rendering.renderers import BLOB, RENDERERS

RICH: Final = replace(
    CASES["every_word"],
    adms=MTLS.adms[:2] + EXAMPLE.adms,
    moves=EXAMPLE.moves + UNPROVEN.moves,
    rollout=replace(EXAMPLE.rollout, redirection=MTLS.rollout.redirection),
    cost=CASES["costs"].cost,
    gap=UNPROVEN.gap,
    program=EXAMPLE.program,
    gates=GATES,
    notes=("a note",),
)
"""Something in every list."""
HOSTILE: Final = (
    "`",
    "``` x",
    "|",
    "a\n::error file=x::owned",
    "x " * 60 + "::add-mask::x",
    "::" * 200,
    "##[error]x",
    "\r\n\r\n# heading\r\n",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202eevil\u2066",
    "\ud800",
    "\x00\x0b\ufffe",
    "</details></summary><script>alert(1)</script>",
    "<!-- -->",
    "![x](https://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "<https://evil.example>",
    "https://evil.example/x",
    "www.evil.example",
    "@everyone @org/team",
    "#1 GH-2 owner/repo#3",
    "**b** _i_ ~~s~~ $x$ :smile:",
    "| a | b |\n|---|---|\n| c | d |",
    "]]><x>&amp;&#60;",
    '"]; click n0 href "javascript:alert(1)"',
    '"] --> n9["x',
    "%%{init: {}}%%\nend\nsubgraph",
    "%0A::warning::x,y",
    "a b/../../c",
    "- 1. list",
    "    code",
    "\t\\`\\|\\",
    "日本語 é \u0301",
    "x" * 5_000,
    "",
)


def replaced(value: Any, text: Any, share: float, chance: random.Random) -> Any:
    """The same value with a part of its strings replaced."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return text() if chance.random() < share else value
    if is_dataclass(value) and not isinstance(value, type):
        made = {each.name: replaced(getattr(value, each.name), text, share, chance) for each in fields(value)}
        return type(value)(**made)
    if isinstance(value, tuple):
        items = [replaced(item, text, share, chance) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


@st.composite
def hostile_diffs(draw: st.DrawFn) -> Diff:
    chance = draw(st.randoms(use_true_random=False))
    own = draw(st.lists(st.text(max_size=30), min_size=1, max_size=3))
    share = draw(st.sampled_from([0.1, 0.5, 1.0]))

    def text() -> str:
        parts = (chance.choice((*HOSTILE, *own)) for _ in range(chance.choice((1, 1, 2, 3))))
        return "".join(parts)

    diff: Diff = replaced(RICH, text, share, chance)
    return diff


@pytest.mark.parametrize("name", RENDERERS)
@examples(20)
@given(diff=hostile_diffs())
def test_only_line_breaks_of_the_renderer_act_on_a_terminal(name: str, diff: Diff) -> None:
    check_output(name, RENDERERS[name](diff))


def check_output(name: str, document: str) -> None:
    assert document.endswith("\n")
    assert all(character == "\n" or character.isprintable() for character in document)
    if name == "text":
        # Else a name could be a command of a continuous-integration job, whose log the text is.
        assert not any(line.lstrip().startswith("::") or "##[" in line for line in document.splitlines())


@examples(30)
@given(hostile_diffs())
def test_markdown_has_the_elements_of_the_renderer_alone(diff: Diff) -> None:
    check_markdown(RENDERERS["markdown"](diff))


@pytest.mark.long
@pytest.mark.parametrize("text", HOSTILE)
def test_each_hostile_text_stays_text(text: str) -> None:
    """In every string at once, and in only one at a time of those that a reader sees first."""
    whole: Diff = replaced(RICH, lambda: text, 1.0, random.Random(1))  # noqa: S311 - no secret
    first = RICH.weaker[0]
    for diff in (
        whole,
        replace(RICH, app=text),
        replace(RICH, weaker=(replace(first, text=text),)),
        replace(RICH, weaker=(replace(first, policy=text),)),
        replace(RICH, weaker=(replace(first, head_line=SourceLine(f"a{text}", 1)),)),
        replace(RICH, cost=replace(RICH.cost, reason=text)),
        replace(RICH, gates=(replace(GATES[3], reason=text),)),
    ):
        for name, render in RENDERERS.items():
            check_output(name, render(diff))
        check_markdown(RENDERERS["markdown"](diff))
        check_mermaid(mermaid(diff))
        check_github(RENDERERS["github"](diff))
        check_sarif(RENDERERS["sarif"](diff))
        assert ElementTree.fromstring(RENDERERS["junit"](diff)).tag == "testsuites"  # noqa: S314 - our own document


def check_markdown(document: str) -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(document)
    assert len(document.encode()) < 65_000
    blocks = {token.type for token in tokens}
    lists = ("bullet_list", "ordered_list", "list_item")
    tables = ("table", "thead", "tbody", "tr", "th", "td")
    allowed = {f"{name}_{end}" for name in ("paragraph", *lists, *tables) for end in ("open", "close")}
    assert blocks <= allowed | {"inline", "html_block", "fence"}
    assert all(token.info == "mermaid" for token in tokens if token.type == "fence")
    html = [line for token in tokens if token.type == "html_block" for line in token.content.splitlines()]
    assert all(re.fullmatch(r"</?details>|<summary>[\w ,:;&+.-]+</summary>", line) for line in html), html
    assert html.count("<details>") == html.count("</details>")
    for token in tokens:
        check_inline(token.children or [])


def check_inline(children: list[Token]) -> None:
    for child in children:
        assert child.type in ("text", "text_special", "code_inline", "strong_open", "strong_close", "softbreak") or (
            child.type == "link_close"
            or (child.type == "link_open" and str(child.attrs["href"]).startswith(f"{BLOB}/"))
        )
    text = "".join(child.content for child in children if child.type in ("text", "text_special"))
    assert not re.search(r"@|#\d|GH-\d|://|www\.|:\w+:", text), text


LABEL: Final = r'"[^"`\n]*"'
NODE: Final = r"(?:n\d+|l_\w+|more)"
ARROW: Final = r"(?:==>|--x|-->|-\.->)"
LINE: Final = re.compile(
    rf"flowchart LR|accTitle: [\w -]*|{NODE}\[{LABEL}\](?::::\w+)?|subgraph legend|direction LR|end|"
    rf"{NODE} {ARROW}\|{LABEL}\| {NODE}|{NODE}(?: ~~~ {NODE})+|"
    r"(?:classDef|linkStyle|style) [\w,]+ [\w:#, -]+"
)


def check_mermaid(graph: str) -> None:
    """Each line is one of the renderer, and what is inside quotes can be neither markup nor the end of the quotes."""
    for line in graph.splitlines():
        assert LINE.fullmatch(line.strip()), line
    for label in re.findall(LABEL, graph):
        assert all(chr(int(code)).isprintable() for code in re.findall(r"#(\d+);", label))
        plain = re.sub(r"</?b>|<br/>|#\d+;", "", label[1:-1])
        assert not re.search(r"[<>&#;`\[\](){}\\/]", plain), label


@examples(30)
@given(hostile_diffs())
def test_a_graph_has_the_lines_of_the_renderer_alone(diff: Diff) -> None:
    check_mermaid(mermaid(diff))


def check_github(document: str) -> None:
    lines = document.splitlines()
    assert 1 <= len(lines) <= 11
    for line in lines:
        match = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        assert match is not None, line
        names = [pair.partition("=")[0] for pair in match[2].split(",")]
        assert names in (["title"], ["file", "line", "title"])


@examples(30)
@given(hostile_diffs())
def test_each_annotation_is_one_command(diff: Diff) -> None:
    check_github(RENDERERS["github"](diff))


def check_sarif(document: str) -> None:
    """What the schema of SARIF 2.1.0 and code hosts require of the parts that are used."""
    (run,) = json.loads(document)["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert run["results"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"].isprintable()
        physical = result["locations"][0]["physicalLocation"]
        assert re.fullmatch(r"[A-Za-z0-9_.~/%-]*", physical["artifactLocation"]["uri"])
        assert physical.get("region", {"startLine": 1})["startLine"] >= 1


@examples(20)
@given(hostile_diffs())
def test_machines_read_all_documents(diff: Diff) -> None:
    check_sarif(RENDERERS["sarif"](diff))
    root = ElementTree.fromstring(RENDERERS["junit"](diff))  # noqa: S314 - our own document
    assert root.attrib["failures"] == str(len(root.findall(".//failure")))
