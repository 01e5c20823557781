"""README.md says what is so: its commands, their output, its picture, its links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.examples.readme import BLOCK, README, ROOT, agrees, output, playground, steps
from tests.testbed.pictures import PICTURES, drawn

if TYPE_CHECKING:
    from pathlib import Path

PAGES = sorted([README, *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def test_its_commands_print_what_it_shows(tmp_path: Path) -> None:
    """`python -m tests.examples.readme` puts fresh output in."""
    folder = playground(tmp_path)
    ran = 0
    for block in BLOCK.findall(README.read_text()):
        for step in steps(block):
            if step.runs:
                printed = output(step.command, folder)
                assert agrees(step.shown, printed), f"{step.command}\nprints\n{printed}"
                ran += 1
    assert ran >= 4


@pytest.mark.parametrize(
    ("shown", "printed", "right"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\n", "a\nb\n", True),
        ("a\n...\nc\n", "a\nb\nc\n", True),
        ("a\n...\nc\n", "a\nb\nc\nd\n", False),
        ("...\nb\n", "a\nb\n", True),
        ("a\n...\nx\n", "a\nb\n", False),
        ("b\n", "a\nb\n", False),
    ],
)
def test_three_dots_stand_for_lines(shown: str, printed: str, right: bool) -> None:
    assert agrees(shown, printed) is right


def test_its_program_is_that_of_the_example() -> None:
    example = (ROOT / "examples" / "hotel_reservation" / "policies.adm").read_text()
    found = re.findall(r"^```adm\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    lines = [line for block in found for line in block.splitlines() if line.strip() and line != "// ..."]
    assert [line for line in lines if line not in example] == []


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_its_picture_shows_what_the_example_compiles_to(name: str) -> None:
    """`python -m tests.testbed.pictures` draws it anew."""
    assert PICTURES[name].read_text() == drawn(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'src="([^"]+)"', text)
    relative = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    assert [link for link in relative if not (page.parent / link).exists()] == []
