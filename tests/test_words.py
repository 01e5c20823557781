"""The check of words finds each word of its list in each shape, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.words import find, read_list, search

LISTED = read_list()
SINGLE = [word for word in LISTED if " " not in word]
PHRASES = [word for word in LISTED if " " in word]

# A list of the test's own, so that this file has none of the real ones.
WORDS = {"heron": "say `bird`", "wild goose": "say `bird`"}


def found(text: str, path: str = "a.py") -> list[tuple[int, str]]:
    return [(finding.line, finding.word) for finding in find(path, text, WORDS)]


@pytest.mark.parametrize("word", LISTED)
def test_each_listed_word_is_found_and_says_what_to_write(word: str) -> None:
    (finding,) = find("docs/a.md", f"One\ntwo {word}, three.\n", LISTED)
    assert (finding.path, finding.line, finding.word) == ("docs/a.md", 2, word)
    assert str(finding) == f"docs/a.md:2: `{word}`: {LISTED[word]}"


@pytest.mark.parametrize("word", SINGLE)
def test_a_listed_word_is_found_as_a_part_of_a_name(word: str) -> None:
    text = f"def test_{word}_waits(): ...\nclass {word.capitalize()}Waits: ...\n"
    assert [finding.line for finding in find("a.py", text, LISTED)] == [1, 2]


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_listed_phrase_is_found_over_a_line_break(phrase: str) -> None:
    text = "# One " + phrase.replace(" ", "\n    # ") + " two\n"
    assert [(finding.line, finding.word) for finding in find("a.py", text, LISTED)] == [(1, phrase)]


@pytest.mark.parametrize(
    "text",
    [
        "a heron",
        "A Heron.",
        "HERON",
        "(heron)",
        "the heron's",
        "test_heron_waits",
        "heron2",
        "HeronWaits",
        "theHeron",
        "XMLHeron",
        "heron-quota",
        "**heron**",
        'x = "heron\\n"',
    ],
)
def test_one_word_is_found_in_each_shape(text: str) -> None:
    assert found(f"\n{text}\n") == [(2, "heron")]


@pytest.mark.parametrize(
    "text",
    [
        "a wild goose",
        "a Wild  Goose",
        "wild_goose",
        "wildGoose",
        "WildGoose",
        "wild-goose",
        "wild **goose**",
        "wild\ngoose",
        "# wild\n    # goose",
        "// wild\n  // goose",
        "/* wild\n * goose */",
        "> wild\n> goose",
        '"wild "\n    "goose"',
        '"wild "\n    f"goose"',
        '"wild " f"goose"',
        "'wild'\n  \"goose\"",
        'x = "wild\\ngoose"',
        'x = "wild\\tgoose"',
        'x = "wild " \\\n    "goose"',
        'x = "wild " + "goose"',
        "wild [goose](a.md)",
        "wild&nbsp;goose",
        "wild<br>goose",
        "wild\u00a0goose",
    ],
)
def test_a_phrase_is_found_in_each_shape_and_its_line_is_where_it_begins(text: str) -> None:
    assert found(f"\n{text}\n") == [(2, "wild goose")]


@pytest.mark.parametrize(
    "text",
    ["herons", "sheron", "wild geese", "wild gooseberry", "wild. Goose", "wild, goose", "wild (goose)", "gooses"],
)
def test_other_words_are_not_found(text: str) -> None:
    assert found(text) == []


def test_a_path_counts() -> None:
    (finding,) = find("tests/test_heron.py", "", WORDS)
    assert str(finding) == "tests/test_heron.py (the file's name): `heron`: say `bird`"


def test_all_files_are_searched_new_ones_as_well_but_those_of_others(tmp_path: Path) -> None:
    ours = ("Makefile", "a.golden", "docs/a.md", "shell")
    for name in (*ours, "LICENSE", "go.sum", "x.lock", "new.py", "ignored.py", "gone.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one\nheron\n", encoding="utf-8")
    (tmp_path / "picture").write_bytes(b"\x89PNG\0 heron")
    (tmp_path / "latin").write_bytes(b"\xe9t\xe9\nheron\n")
    for command in (["init", "--quiet"], ["add", "."], ["rm", "--quiet", "--cached", "new.py", "ignored.py"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "gone.py").unlink()
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    assert [(finding.path, finding.line) for finding in search(tmp_path, WORDS)] == [
        ("Makefile", 2),
        ("a.golden", 2),
        ("docs/a.md", 2),
        ("latin", 2),
        ("new.py", 2),
        ("shell", 2),
    ]
