"""Notes are shown in every format, and never change an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admc.__main__ import main
from tests.cli.programs import write

PROGRAM = """\
app notes
service web, api { http 80 }
call web -> api
policy again = retry(attempts: 3) on web -> api
policy slow = timeout(after: 2s) on web -> api
"""
ORDERED = PROGRAM.replace("policy again", "policy first = timeout(after: 9s) on web -> api\npolicy again").replace(
    "policy slow = timeout(after: 2s) on web -> api\n", ""
)
SHOWN = {
    "text": "note[ADM423]: ",
    "json": '"severity": "note"',
    "markdown": "note ADM423",
    "sarif": '"level": "note"',
    "github": "::notice file=",
}


@pytest.mark.parametrize("command", ["check", "compile"])
@pytest.mark.parametrize("format_", SHOWN)
def test_a_note_is_shown(command: str, format_: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(write(tmp_path, PROGRAM)), "--format", format_]) == 0
    out, err = capfd.readouterr()
    assert SHOWN[format_] in (err if (command, format_) == ("compile", "text") else out)


def test_the_summary_says_which_attempts_a_timeout_limits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(write(tmp_path, PROGRAM))]) == 0
    assert (
        "  `slow` limits each attempt of `again` by itself, since it is declared after it\n" in capfd.readouterr().out
    )
    assert main(["compile", str(write(tmp_path, ORDERED)), "--format", "markdown"]) == 0
    assert "- `first` limits all attempts of `again` together, " in capfd.readouterr().out
    assert main(["compile", str(write(tmp_path, ORDERED)), "--format", "json"]) == 0
    (said,) = json.loads(capfd.readouterr().out)["timeouts"]
    assert said.startswith("`first` limits all attempts")


def test_a_note_leaves_the_plan_as_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(write(tmp_path, PROGRAM)), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["warnings"] == []
