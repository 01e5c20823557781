"""The statement `profile`: a file as an input of the program, or the name of a built-in profile."""

from __future__ import annotations

import hashlib

import pytest

import dsl
from dsl.program import Program
from tests.dsl.programs import FILES, codes, findings, load

HEAD = "app x\nservice web, search, profile { http 80 }\ncall web -> search, profile\n"


def test_a_program_without_a_profile_has_none() -> None:
    assert load(HEAD).profile is None


def test_a_built_in_profile_is_no_input() -> None:
    program = load(HEAD + "profile meshinsight\n")
    assert program.profile is not None
    assert (program.profile.name, program.profile.text) == ("meshinsight", None)
    assert [item.path for item in program.inputs] == ["policies.adm"]


def test_a_file_is_an_input_with_its_digest() -> None:
    program = load(HEAD + 'profile "node.json"\n')
    assert program.profile is not None
    assert program.profile.text is not None
    assert program.profile.text.text == FILES["node.json"].decode()
    assert (program.inputs[1].path, program.inputs[1].sha256) == (
        "node.json",
        hashlib.sha256(FILES["node.json"]).hexdigest(),
    )


def test_a_path_is_relative_to_the_file_that_names_it() -> None:
    files = {**FILES, "shared/costs.adm": b'profile "node.json"\n', "shared/node.json": b"[]"}
    program = load(HEAD + 'use "shared/costs.adm"\n', files)
    assert program.profile is not None
    assert program.profile.name == "shared/node.json"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ('profile "node.json"\nprofile "node.json"', "ADM116"),
        ("profile meshinsight\nprofile flatproxy", "ADM116"),
        ('profile "absent.json"', "ADM501"),
        ('profile "node.yaml"', "ADM504"),
        ('profile "../node.json"', "ADM509"),
        ("profile node.json", "ADM002"),
        ("profile", "ADM001"),
        ("profile a b", "ADM001"),
    ],
)
def test_mistakes(lines: str, code: str) -> None:
    assert codes(f"{HEAD}{lines}\n") == [code]


def test_the_second_profile_names_the_first() -> None:
    (finding,) = findings(HEAD + "profile a\nprofile b\n")
    assert finding.span is not None
    assert (finding.span.text, finding.related[0].span.text) == ("profile b", "profile a")


def test_a_service_may_be_named_profile() -> None:
    """Such a name begins the next line of a statement that goes on, also where other words follow it."""
    program = load(
        HEAD
        + "policy a = timeout(after: 1s) on web -> search,\n  profile\n"
        + 'policy b = access_log() on web -> search,\n  profile when path == "/a"\n'
        + "policy c = request_count() on search,\n  profile except profile -> search\n"
    )
    assert [policy.destinations for policy in program.policies[:2]] == [("profile", "search")] * 2
    assert _calls(program, 1) == 2


def _calls(program: Program, position: int) -> int:
    return len(program.policies[position].calls)


def test_a_misspelt_statement_about_such_a_service_gives_one_error() -> None:
    assert codes(HEAD + "polcy p = deny() on web -> profile\npin p at ingress\n") == ["ADM008"]


def test_the_statement_is_formatted() -> None:
    assert dsl.format_text('app x\nprofile    "a.json"   // measured\nprofile   b\n') == (
        'app x\nprofile "a.json"  // measured\nprofile b\n'
    )
