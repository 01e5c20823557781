"""The examples of docs/language.md are programs, and the page leaves no part of the language out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.kinds.annotations import ANNOTATIONS, NETWORK
from dsl.syntax.parser import parse
from dsl.syntax.tokens import KEYWORDS
from dsl.text import SourceText
from dsl.values.typed import SCALARS
from tests.dsl.programs import load

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```adm\n(.*?)```", PAGE, re.DOTALL)
JSON = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
SAME_SITE = '@ingress @egress\nkind same_site(origin: string) for http, grpc template "same_site.yaml"\n'


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_load_without_a_finding(number: int) -> None:
    files = {
        "same_site.yaml": b"origin: ${origin}\nheader: ${header}\n",
        "shared/same_site.yaml": b"origin: ${origin}\n",
        "slow_lane.yaml": b"limit_kbps: ${kbps}\nfill_interval: ${burst}\n",
        "shared/kinds.adm": SAME_SITE.encode(),
        "shop.json": JSON[0].encode(),
    }
    program = load(EXAMPLES[number], files)
    assert [warning.message for warning in program.warnings] == []


def test_the_page_shows_every_statement_and_names_every_annotation_and_type() -> None:
    shown = set()
    for example in EXAMPLES:
        for statement in parse(SourceText("example.adm", example), Diagnostics()).statements:
            shown.add(type(statement).__name__.lower())
    assert shown == {keyword.replace("_", "") for keyword in KEYWORDS}
    for annotation in (*ANNOTATIONS, NETWORK):
        assert f"`@{annotation}" in PAGE
    for type_ in SCALARS:
        assert f"`{type_}`" in PAGE
