"""What is committed or compared names no line of the prelude: a comment there changes nothing for a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from dsl.kinds import prelude
from tests.cli.command import ROOT
from tests.examples.test_examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIAGNOSTICS = ROOT / "tests" / "dsl" / "diagnostics.golden"


@pytest.fixture
def shifted_prelude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every built-in kind is declared one line further down."""
    before = prelude.kinds()["allow"].kind.span.line
    text = (ROOT / "dsl" / "prelude.adm").read_text(encoding="utf-8")
    (tmp_path / "shifted.adm").write_text(f"// A comment.\n{text}", encoding="utf-8")
    monkeypatch.setattr(prelude, "_FILE", tmp_path / "shifted.adm")
    prelude.kinds.cache_clear()
    assert prelude.kinds()["allow"].kind.span.line == before + 1
    yield
    prelude.kinds.cache_clear()


@pytest.mark.usefixtures("shifted_prelude")
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_comment_in_the_prelude_leaves_a_plan_as_it_is(name: str) -> None:
    assert main(["compile", str(ROOT / "examples" / name / "policies.adm"), "--check"]) == 0


@pytest.mark.usefixtures("shifted_prelude")
@pytest.mark.parametrize("name", ["booking_db", "reservation", "mongodb-reservation"])
def test_explanations_of_a_program_name_no_line_of_the_prelude(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(ROOT / "examples" / "hotel_reservation" / "policies.adm"), name]) == 0
    said = capsys.readouterr().out
    assert "hotel_reservation/policies.adm:" in said
    assert prelude.SHOWN not in said


def test_findings_name_no_line_of_the_prelude() -> None:
    text = DIAGNOSTICS.read_text(encoding="utf-8")
    assert "error ADM204: `rate_limit` needs `per`" in text
    assert prelude.SHOWN not in text
