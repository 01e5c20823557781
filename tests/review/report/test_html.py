"""The page is one file that loads nothing, runs no name, and has the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from admc.compile.plan.to_json import to_json
from admc.review.diff.render import json as diff_json
from admc.review.report.html import render
from admc.review.report.plan_page import plan_page
from tests.review.diff.rendering.cases import EVERY_WORD
from tests.review.report.markup import Markup
from tests.review.report.programs import HOSTILE, ROOT, hostile, hotel

WEB = files("admc.review.report") / "web"


def page() -> Markup:
    return Markup(render(plan_page(hotel())))


def test_the_library_and_its_licence_are_those_of_the_provenance() -> None:
    (name, entry), *others = json.loads((WEB / "provenance.json").read_text(encoding="utf-8")).items()
    assert not others
    library = (WEB / name).read_bytes()
    assert len(library) == entry["bytes"]
    assert hashlib.sha256(library).hexdigest() == entry["sha256"]
    licence = (WEB / entry["license_file"]).read_bytes()
    assert hashlib.sha256(licence).hexdigest() == entry["license_sha256"]
    assert b"The Cytoscape Consortium" in licence


def test_the_policy_allows_the_scripts_and_the_style_of_the_page_and_nothing_else() -> None:
    found = page()
    (policy,) = (
        value
        for tag, name, value in found.attributes
        if tag == "meta" and name == "content" and value and "src" in value
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))

    def digests(texts: list[str]) -> str:
        return " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts
        )

    assert rules == {
        "default-src": "'none'",
        "script-src": digests(found.block("script")),
        "style-src": digests(found.block("style")),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert len(found.block("script")) == 2
    assert found.tags.index("meta") < found.tags.index("style")


def test_no_element_names_another_resource_and_no_attribute_is_a_script() -> None:
    names = {name for _tag, name, _value in page().attributes}
    assert not names & {"src", "href", "srcset", "data", "action", "formaction", "background", "poster", "ping"}
    assert not [name for name in names if name.startswith("on") or name == "style"]


def test_own_files_have_no_address_and_write_no_markup() -> None:
    for name in ("page.html", "page.css", "page.js"):
        text = (WEB / name).read_text(encoding="utf-8")
        assert not re.search(r"https?:|//[a-z]|@import|url\(", text), name
    script = (WEB / "page.js").read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|setAttribute", script)


def test_hostile_names_stay_data() -> None:
    quiet, loud = Markup(render(plan_page(hotel()))), Markup(render(plan_page(hostile(hotel()))))
    assert loud.tags == quiet.tags
    assert loud.attributes == quiet.attributes
    assert loud.block("script") == quiet.block("script")
    (block,) = loud.block("script", "application/json")
    assert not set(block) & set("<>&\u2028\u2029")
    assert block.isascii()
    names = {node["name"] for node in json.loads(block)["nodes"]}
    assert f"{HOSTILE[0]}0" in names


@pytest.mark.long
@pytest.mark.parametrize("what", ["hotel.plan.json", "DIFF.json"])
def test_the_same_input_has_the_same_bytes_in_every_process(tmp_path: Path, what: str) -> None:
    (tmp_path / "hotel.plan.json").write_bytes(to_json(hotel()))
    (tmp_path / "DIFF.json").write_text(diff_json.render(EVERY_WORD), encoding="utf-8")
    written = []
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.html"
        command = [sys.executable, "-m", "admc", "report", what, "-o", str(target)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60, cwd=tmp_path)
        written.append(target.read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("part", ["@@TITLE@@", "@@DATA@@", "@@SCRIPT@@"])
def test_a_name_that_looks_like_a_part_of_the_template_stays_a_name(part: str) -> None:
    found = Markup(render(replace(plan_page(hotel()), title=part)))
    assert json.loads(found.block("script", "application/json")[0])["title"] == part
