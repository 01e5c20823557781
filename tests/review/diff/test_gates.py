"""The gates of both sides: BASE's are judged, and what HEAD does to them is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from admc.base.exits import CommandError, Exit
from admc.compile.pipeline import compile_program
from admc.compile.plan.to_json import to_json
from admc.review.diff.model import Diff, Verdict
from admc.review.diff.render import github as diff_github
from tests.review.diff.harness import MAIN, GitRepository, diff, write

PROGRAM = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 5, per: 1s) on * -> cart
"""
WEAKER = PROGRAM.replace("requests: 5", "requests: 50")
GATES = "policies.gates.adm"
SAFE = "gate safe = fail when weaker\n"
BROKEN = "gate safe = stop when weaker\n"


def compared(folder: Path, base: dict[str, str], head: dict[str, str]) -> Diff:
    write(folder / "base", base)
    write(folder / "head", head)
    return diff(f"{folder}/base/{MAIN}", f"{folder}/head/{MAIN}", causes=False)


def test_gates_of_head_with_errors_fail_the_change(tmp_path: Path) -> None:
    """After the merge they would be those of BASE, and no gate would be judged."""
    with pytest.raises(CommandError) as caught:
        compared(tmp_path, {MAIN: PROGRAM, GATES: SAFE}, {MAIN: WEAKER, GATES: BROKEN})
    assert caught.value.exit_code == Exit.INPUT
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.source.path, span.line) == (GATES, 1)


def test_gates_of_base_with_errors_warn_and_can_be_mended(tmp_path: Path) -> None:
    found = compared(tmp_path, {MAIN: PROGRAM, GATES: BROKEN}, {MAIN: WEAKER, GATES: SAFE})
    assert found.gates == ()
    (note,) = found.notes
    assert note.startswith("no gate is judged, since the gates of BASE have errors")
    assert f"::warning title=admc diff::{note}" in diff_github.render(found)


def test_what_head_does_to_the_gates_is_shown(tmp_path: Path) -> None:
    base = f"{SAFE}gate few = fail when adms > 12\ngate big = warn when memory > 1GiB\n"
    head = "gate few = warn when adms > 20\ngate big = warn when memory > 1024MiB\ngate new = warn when lost\n"
    found = compared(tmp_path, {MAIN: PROGRAM, GATES: base}, {MAIN: WEAKER, GATES: head})
    assert [gate.verdict for gate in found.gates] == [Verdict.BREACHED, Verdict.PASSED, Verdict.NOT_JUDGED]
    assert found.notes == (
        "the gate `few` changes with the merge: `fail when adms > 12` -> `warn when adms > 20`",
        "the gate `new` holds from the merge on: `warn when lost`",
        "the gate `safe` no longer holds from the merge on, since HEAD lacks it: `fail when weaker`",
    )
    assert all(note in diff_github.render(found) for note in found.notes)


def test_a_file_of_gates_that_head_deletes_or_renames_still_judges(tmp_path: Path) -> None:
    found = compared(tmp_path, {MAIN: PROGRAM, GATES: SAFE}, {MAIN: WEAKER, "other.gates.adm": SAFE})
    assert [gate.verdict for gate in found.gates] == [Verdict.BREACHED]
    (note,) = found.notes
    assert note == "the gate `safe` no longer holds from the merge on, since HEAD lacks it: `fail when weaker`"


def test_a_plan_that_lies_elsewhere_says_nothing_about_gates(tmp_path: Path) -> None:
    write(tmp_path / "head", {MAIN: PROGRAM, GATES: SAFE})
    (tmp_path / "saved.json").write_bytes(to_json(compile_program(tmp_path / "head" / MAIN).plan))
    assert diff(f"{tmp_path}/saved.json", f"{tmp_path}/head/{MAIN}").notes == ()
    assert diff(f"{tmp_path}/head/{MAIN}", f"{tmp_path}/saved.json").notes == ()


def test_gates_that_base_has_without_the_program_judge_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = GitRepository(tmp_path / "repository")
    repository.commit({GATES: "gate few = fail when adms > 0\n"})
    write(repository.folder, {MAIN: PROGRAM})
    monkeypatch.chdir(repository.folder)
    assert [gate.verdict for gate in diff("HEAD", MAIN).gates] == [Verdict.BREACHED]
