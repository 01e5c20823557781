"""Problems: the summary of a finding, and the state that stays."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from admc.base.exits import CommandError
from admc.compile.pipeline import load_program
from admc.serve.files.state_dir import open_state_dir
from admc.serve.observe.problems import Problems
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from pathlib import Path

CAUSED = Diagnostic("ADM805", Severity.ERROR, "the plan `a` was written by a newer admc", None, "it has version 2")
NOWHERE = Diagnostic("ADM854", Severity.ERROR, "the stored state cannot be used", None)


def findings(folder: Path) -> tuple[Diagnostic, ...]:
    program = folder / "shop.adm"
    program.write_text("app shop\n\n  policyy x\n")
    with pytest.raises(CommandError) as caught:
        load_program(program)
    return caught.value.diagnostics


def records(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [{**vars(record), "event": record.getMessage()} for record in caplog.records]


def test_the_summary_of_a_finding_has_its_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems(active_version="0123")
    found = findings(tmp_path)
    problems.report("program", found, "apps")
    assert problems.summary.startswith(f"apps/shop.adm:3:3: {found[0].message}")
    first = records(caplog)[0]
    assert (first["event"], first["file"], first["line"], first["column"]) == ("finding", "apps/shop.adm", 3, 3)


def test_the_summary_of_a_finding_without_a_place_has_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems()
    problems.report("program", (CAUSED, NOWHERE), "")
    assert problems.summary == "the plan `a` was written by a newer admc: it has version 2 (and 1 more)"
    problems.report("program", (NOWHERE,), "")
    assert problems.summary == "the stored state cannot be used"
    assert [record["code"] for record in records(caplog) if "code" in record] == ["ADM805", "ADM854", "ADM854"]


@pytest.mark.parametrize(
    ("about", "stays", "events"),
    [
        ("program", "0123", ["finding", "last_good_state_stays"]),
        ("endpoints", "", ["finding", "no_state_yet"]),
        ("kept", "", ["finding"]),
        ("kept", "0123", ["finding"]),
    ],
)
def test_the_active_state_is_logged_if_there_is_one(
    about: str, stays: str, events: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Problems(active_version=stays).report(about, (NOWHERE,), "")
    said = records(caplog)
    assert [record["event"] for record in said] == events
    assert "file" not in said[0]
    assert all(record["state"] for record in said if "state" in record)


def test_a_file_is_no_folder_to_keep_state_in(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("something else")
    with pytest.raises(CommandError) as caught:
        open_state_dir(tmp_path / "state")
    assert caught.value.diagnostics[0].cause == "it is not a folder"
    assert (tmp_path / "state").read_text() == "something else"
