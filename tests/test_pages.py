"""The pages for developers name modules that are there, and the glossary stays short."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
DOTTED = re.compile(r"`((?:admc|dsl|emitters|solver|xds_server)(?:\.\w+)+)[`(]")
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or what a module has."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("name", sorted(set(DOTTED.findall((DOCS / "architecture.md").read_text(encoding="utf-8")))))
def test_each_module_that_the_page_on_architecture_names_is_there(name: str) -> None:
    assert is_there(name)


@pytest.mark.parametrize("name", ["solver.conflict.irreducible", "no_such_package.module", "dsl.load.nothing"])
def test_a_name_of_nothing_is_found(name: str) -> None:
    assert not is_there(name)


def test_the_glossary_has_at_most_forty_words() -> None:
    rows = ROW.findall((DOCS / "glossary.md").read_text(encoding="utf-8"))
    words = [word for row in rows if row not in ("word", "---") for word in row.split(", ")]
    assert len(words) == len(set(words))
    assert 30 < len(words) <= 40
