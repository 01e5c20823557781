"""What `admc diff` finds in each case of `cases.toml`, and the whole difference as a golden file.

`UPDATE_GOLDEN=1 pytest tests/review/diff/test_cases.py` writes the golden files anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

import admc
from admc.base.exits import CommandError
from admc.review.diff.read import from_json
from admc.review.diff.render import json as diff_json
from tests.review.diff.harness import HERE, MAIN, Case, cases, diff, said, write_sides

CASES = cases()
SCHEMA = json.loads(Path(admc.__file__).with_name("diff.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GOLDEN = HERE / "golden"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sides(tmp_path, case)
    monkeypatch.chdir(tmp_path)
    if case.exit_code:
        with pytest.raises(CommandError) as refused:
            diff(f"base/{MAIN}", f"head/{MAIN}")
        assert refused.value.exit_code == case.exit_code
        return
    found = diff(f"base/{MAIN}", f"head/{MAIN}")
    assert said(found.weaker) == list(case.weaker)
    assert said(found.stricter) == list(case.stricter)
    document = diff_json.render(found)
    VALIDATOR.validate(json.loads(document))
    assert from_json(document.encode("ascii")) == found
    golden = GOLDEN / f"{case.name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(document, encoding="ascii")
    assert document == golden.read_text(encoding="ascii")
