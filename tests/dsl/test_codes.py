"""The registry of codes is complete, and its examples give these codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dsl
from dsl.diagnostics.codes import CODES
from tests.dsl.programs import codes

USED = {
    code
    for path in Path(dsl.__file__).parent.rglob("*.py")
    if not path.name.startswith("codes")
    for code in re.findall(r"\"(ADM[0-9]{3})\"", path.read_text(encoding="utf-8"))
}


def test_every_code_in_use_is_registered_and_no_other() -> None:
    assert set(CODES) == USED


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_bad_example_gives_the_code_and_the_good_one_gives_nothing(code: str) -> None:
    assert codes(CODES[code].example_bad) == [code]
    assert codes(CODES[code].example_good) == []


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_explained(code: str) -> None:
    info = CODES[code]
    assert len(info.explanation) > 30
    assert info.title[0].islower() or info.title[0] in "`", info.title
    assert not info.title.endswith(".")
    assert info.explanation.endswith(".")
