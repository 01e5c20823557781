"""Messages for users: golden cases, each a program and all its findings.

After a wanted change `python -m tests.dsl.test_diagnostics` writes the findings anew; review the difference.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS
from tests.dsl.programs import findings

GOLDEN = Path(__file__).with_name("diagnostics.golden")
_CASE = "=== "
_FINDINGS = "---\n"


def _cases() -> dict[str, tuple[str, str]]:
    """Name -> program and findings."""
    found: dict[str, tuple[str, str]] = {}
    for part in GOLDEN.read_text(encoding="utf-8").split(_CASE)[1:]:
        name, _, rest = part.partition("\n")
        program, _, expected = rest.partition(_FINDINGS)
        found[name] = program, expected.rstrip("\n")
    return found


def _shown(program: str) -> str:
    lines: list[str] = []
    for finding in findings(program):
        lines.append(f"{finding.span}: {finding.severity} {finding.code}: {finding.message}")
        lines.extend(f"    {text}" for text in (finding.cause,) if text)
        lines.extend(f"    hint: {text}" for text in (finding.hint,) if text)
        lines.extend(f"    {related.span}: {related.message}" for related in finding.related)
    return "\n".join(lines)


@pytest.mark.parametrize("name", sorted(_cases()))
def test_findings(name: str) -> None:
    program, expected = _cases()[name]
    assert _shown(program) == expected


@pytest.mark.parametrize("name", sorted(_cases()))
def test_messages_follow_the_house_style(name: str) -> None:
    for finding in findings(_cases()[name][0]):
        for text in (finding.message, finding.cause, finding.hint):
            if text is not None:
                assert not text.endswith("."), text
                assert text[:1].islower() or not text[:1].isalpha(), text
                assert text.count("`") % 2 == 0, text


def test_at_most_a_hundred_errors_are_shown() -> None:
    assert len(findings("app x\n" + "service {}\n" * 500)) == MAX_DIAGNOSTICS
    assert len(findings("app x\nservice a { http 80 }\n" + "call a -> b\n" * 500)) == MAX_DIAGNOSTICS


def test_warnings_do_not_hide_errors() -> None:
    head = "app x\nservice a, b { http 80 }\n"
    many = "".join(f"policy p{index} = access_log() on a -> b\n" for index in range(300))
    assert {finding.code for finding in findings(head + many)} == {"ADM404"}
    assert "ADM101" in {finding.code for finding in findings(head + many + "call a -> c\n")}


def test_wrong_programs_are_refused_as_fast_as_right_ones() -> None:
    """The search for a close name takes milliseconds, so it must not run for errors that are not shown."""
    services = "".join(f"service s{index} {{ http 80 }}\n" for index in range(5000))
    wrong = "".join(f"call s{index} -> t{index}\n" for index in range(5000))
    start = time.process_time()
    assert len(findings(f"app x\n{services}{wrong}")) == MAX_DIAGNOSTICS
    assert time.process_time() - start < 10


def test_statements_without_end() -> None:
    lengths = {"call a -> " + "b, " * 300_000: "ADM009", "policy p = f(" + "[" * 100_000: "ADM006"}
    for text, code in lengths.items():
        assert [finding.code for finding in findings("app x\nservice a, b { http 80 }\n" + text)] == [code]


def test_lines_that_end_with_a_carriage_return_alone() -> None:
    """The file would be read as one comment, or as one statement, and get misleading errors."""
    hint = "end each line with a line feed (LF), or with CR and LF"
    for text in ("app x\rservice a { http 80 }\r", "// shop\rapp x\r"):
        (found,) = findings(text)
        assert (found.code, found.hint) == ("ADM002", hint)
    (found,) = findings("app x\nservice a { http 80 }\rservice b { http 80 }\n")
    assert found.hint == hint
    assert not findings("app x\r\nservice a { http 80 }\r\n")
    assert not findings("app x\r")


def _rewrite() -> None:
    parts = [f"{_CASE}{name}\n{program}{_FINDINGS}{_shown(program)}\n" for name, (program, _) in _cases().items()]
    GOLDEN.write_text("\n".join(parts), encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# routes\n---\napiVersion: networking.istio.io/v1\nkind: VirtualService\n", "apiVersion"),
        ("// routes\r\n\r\napiVersion: v1\r\n", "apiVersion"),
        ("\ufeffapiVersion: v1\n", "apiVersion"),
        ("---\n- web\n", "---"),
        ("  kind: List", "kind"),
        ("\ufeff \n[1]", "["),
    ],
)
def test_another_language_is_one_finding_at_the_place_that_shows_it(text: str, shown: str) -> None:
    (found,) = findings(text)
    assert found.code == "ADM008"
    assert found.span is not None
    assert found.span.text == shown


@pytest.mark.parametrize("start", [" ", "#\n", "\n", "---\n", "# a: b ", "a" * 10])
def test_a_long_file_of_comments_is_quickly_distinguished_from_yaml(start: str) -> None:
    began = time.process_time()
    assert findings(start * 200_000)
    assert time.process_time() - began < 5


if __name__ == "__main__":
    _rewrite()
