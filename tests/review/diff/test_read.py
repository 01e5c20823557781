"""The published form of a difference, and reading it back: it may be hostile, cut short or of another version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import admc
from admc.base.exits import CommandError
from admc.review.diff.model import Word
from admc.review.diff.read import from_json, read_diff
from admc.review.diff.render import json as diff_json
from dsl.documents import DocumentError
from tests.changed_documents import mutants
from tests.review.diff.harness import HERE

SCHEMA = json.loads(Path(admc.__file__).with_name("diff.schema.json").read_text(encoding="utf-8"))
GOLDEN = HERE / "golden"
EXAMPLE = (GOLDEN / "hosts-move.json").read_bytes()


def test_bytes_are_read_back_and_written_again() -> None:
    for path in sorted(GOLDEN.glob("*.json")):
        assert diff_json.render(from_json(path.read_bytes())).encode("ascii") == path.read_bytes()


@pytest.mark.parametrize("cut", range(0, len(EXAMPLE) - 2, 97))
def test_a_difference_that_was_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(DocumentError):
        from_json(EXAMPLE[:cut])


def test_a_field_more_or_less_or_of_another_type_is_refused() -> None:
    document = json.loads(EXAMPLE)
    tried = 0
    for changed in mutants(document):
        tried += 1
        with pytest.raises(DocumentError):
            from_json(json.dumps(changed).encode())
    assert tried > 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "lacks `schema_version`"),
        (b'{"schema_version": true}', "no `schema_version`"),
        (b'{"schema_version": 1}', "it has schema version 1, and this admc reads 3"),
        (b'{"schema_version": 99}', "and this admc reads 3"),
        (b'{"schema_version": 3, "app": NaN}', "`app` must be a string"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"schema_version": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"schema_version": 3, "app": "\\ud800"}', "half of a character"),
    ],
)
def test_what_is_no_difference_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        from_json(text)


def test_a_finding_stands_in_the_list_of_its_word() -> None:
    document = json.loads(EXAMPLE)
    document["stricter"], document["weaker"] = document["weaker"], []
    with pytest.raises(DocumentError, match=r"`stricter\[0\].word` must not be `lost`"):
        from_json(json.dumps(document).encode())
    assert Word.LOST.value == "lost"


def test_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "DIFF.json"
    path.write_text("{}")
    with pytest.raises(CommandError) as refused:
        read_diff(path)
    (found,) = refused.value.diagnostics
    assert (refused.value.exit_code, found.code) == (1, "ADM839")
    assert (found.hint or "").startswith("write it again: `admc diff ")
    with pytest.raises(CommandError) as refused:
        read_diff(tmp_path / "nowhere.json")
    assert refused.value.diagnostics[0].code == "ADM802"
