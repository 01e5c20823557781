"""The command line: usage errors, exit codes and bugs."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from admc.__main__ import main
from admc.compile.pipeline import Compiled
from tests.cli.command import Admc
from tests.cli.programs import IMPOSSIBLE, SHOP, WRONG, write


def test_help_and_version(admc: Admc) -> None:
    for arguments in ((), ("--help",), ("compile", "--help"), ("fmt", "-h")):
        run = admc(*arguments)
        assert (run.code, run.err) == (0, "")
        assert "Usage: admc" in run.out
    assert admc("--version").out.startswith("admc ")


USAGE_ERRORS = [
    ("compile",),
    ("chek", "x.adm"),
    ("compile", "x.adm", "--frmat", "json"),
    ("compile", "x.adm", "--format", "xml"),
    ("compile", "x.adm", "--effort", "much"),
    ("compile", "x.adm", "--effort", "-1"),
    ("compile", "x.adm", "--effort", "nan"),
    ("compile", "x.adm", "--mode", "redirect", "--emit", "out"),
    ("compile", "x.adm", "--endpoints", "e.json"),
    ("compile", "x.adm", "y.adm"),
    ("completion", "tcsh"),
    ("graph", "x.adm", "--format", "png"),
    ("explain", "ADM999"),
    ("fmt",),
]


@pytest.mark.parametrize("arguments", USAGE_ERRORS, ids=" ".join)
def test_a_usage_error_is_a_diagnostic_with_exit_1(admc: Admc, arguments: tuple[str, ...]) -> None:
    run = admc(*arguments)
    assert run.code == 1
    assert run.out == ""
    assert run.err.startswith("error[ADM8")
    message = run.err.splitlines()[0].split(": ", 1)[1]
    assert message[0].islower() or message[0] == "`"
    assert not message.endswith(".")


SAID = {
    ("compil", "x.adm"): ("there is no command `compil`", "did you mean `compile`?"),
    ("enforce", "x.adm"): ("there is no command `enforce`", "`admc --help` lists all commands"),
    ("compile", "x.adm", "--frmat", "json"): ("there is no option `--frmat`", "did you mean `--format`?"),
    ("compile", "x.adm", "--effort", "much"): ("invalid value for `--effort`: `much` is not a number", "admc compile"),
    ("graph", "x.adm", "y.adm"): ("unexpected argument `y.adm`", "`admc graph --help`"),
    ("compile", "x.adm", "-o"): ("option `-o` requires an argument", "`admc compile --help`"),
    ("compile", "x.adm", "--emit", ""): ("`--emit` has an empty value", "is a variable of the shell not set?"),
    ("compile", "x.adm", "--emit="): ("`--emit` has an empty value", "is a variable of the shell not set?"),
    ("check", ""): ("an argument is empty", "is a variable of the shell not set?"),
    ("explain", "ADM606", "quota"): ("`ADM606` is not a program", "`admc explain PROGRAM quota`"),
    ("explain", "ADM1"): ("`ADM1` is not a program", "a code is `ADM` and three digits"),
    ("explain", "r99"): ("`r99` is not a program", "the rules are `R1` to `R10`"),
    ("completion",): ("missing argument `SHELL`: choose from bash, zsh, fish", "`admc completion --help`"),
    ("lint", "x.adm"): ("there is no command `lint`", "`admc check PROGRAM` finds the errors"),
    ("validate", "x.adm"): ("there is no command `validate`", "`admc check PROGRAM` finds the errors"),
    ("apply", "x.adm"): ("there is no command `apply`", "`admc compile PROGRAM --emit DIR` writes the configuration"),
    ("version",): ("there is no command `version`", "`admc --version`"),
    ("-V",): ("there is no option `-V`", "`admc --version`"),
    ("help",): ("there is no command `help`", "`admc --help` lists all commands"),
    ("my app/x.adm",): ("there is no command `my app/x.adm`", "`admc compile 'my app/x.adm'` compiles it"),
    ("plan", "my app/x.adm"): (
        "`my app/x.adm` is no name of a Program",
        "`admc compile 'my app/x.adm'` makes the plan",
    ),
    ("compile", "x.adm", "-o", "yaml"): ("`yaml` is the name of a format", "`--emit DIR` the configuration as YAML"),
    ("compile", "x.adm", "-o", "JSON"): ("`JSON` is the name of a format", "`--json` writes the plan"),
    ("diff", "main"): ("`main` has nothing to be compared with", "`admc diff main policies.adm`"),
    ("diff", "my app/x.adm"): ("`my app/x.adm` has nothing", "`admc diff main 'my app/x.adm'`"),
    ("explain", "rate_limt"): ("`rate_limt` is not a program", "did you mean `rate_limit`?"),
}


@pytest.mark.parametrize("arguments", SAID, ids=" ".join)
def test_a_usage_error_says_what_and_what_to_do(admc: Admc, arguments: tuple[str, ...]) -> None:
    what, hint = SAID[arguments]
    run = admc(*arguments)
    assert run.code == 1
    first, second = run.err.splitlines()[:2]
    assert what in first
    assert second.startswith("  = hint: ")
    assert hint in second


def test_a_program_that_is_missing_is_named_as_it_was_typed(admc: Admc, tmp_path: Path) -> None:
    for command in ("check", "compile", "explain", "graph"):
        run = admc(command, tmp_path / "sub" / "none.adm")
        assert f"cannot read `{tmp_path}/sub/none.adm`" in run.out + run.err


def test_a_program_that_is_missing_may_be_its_neighbour(
    admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.parent.parent)
    folder = shop.parent.name
    for typed in (f"{folder}/policy.adm", f"{folder}/policies", f"{folder}/policies.amd"):
        run = admc("compile", typed)
        assert run.code == 1
        assert f"hint: did you mean `{folder}/policies.adm`?" in run.err, run
    monkeypatch.chdir(shop.parent)
    assert "hint: did you mean `policies.adm`?" in admc("explain", "policies").err
    assert "hint" not in admc("check", "nothing-like-it.adm").out


def test_a_picture_says_where_it_is(admc: Admc, shop: Path, tmp_path: Path) -> None:
    picture = tmp_path / "a.svg"
    assert admc("graph", shop, "-o", picture).out == f"wrote `{picture}`\n"
    assert admc("graph", shop, "-o", picture).out == f"`{picture}` is up to date\n"


@pytest.mark.long
@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 5000, "a" * 300 + ".adm", "\udcff.adm"])
def test_a_name_that_no_file_can_have_is_no_bug(
    admc: Admc, shop: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (
        *(([command], [name]) for command in ("check", "compile", "explain", "graph", "fmt")),
        (["compile", shop, "-o"], [name]),
        (["compile", shop, "--emit"], [name]),
        (["compile", shop, "--emit"], [f"{tmp_path}/{name}"]),
        (["compile", shop, "--emit", tmp_path / "out", "--endpoints"], [name]),
        (["compile", shop, "--previous"], [name]),
        (["graph", shop, "-o"], [f"{name}.svg"]),
        (["explain", shop], [name]),
        (["check", shop, "--include"], [name]),
    ):
        run = admc(*(item for part in arguments for item in part))
        # A name of bytes that are no UTF-8 is a name.
        assert run.code == 1 or (name.startswith("\udcff") and run.code == 0), (arguments, run)
        assert run.code == 0 or "error[ADM" in run.out + run.err


@pytest.fixture
def closed(admc: Admc, shop: Path) -> Iterator[Path]:
    """A folder that this process may not look into. A privileged one gives its privileges away for the test."""
    for arguments in (["compile", shop, "--emit", shop.parent / "warm"], ["graph", shop], ["explain", "x"]):
        admc(*arguments)  # so that everything is loaded while it can be
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "closed"
        (folder / "inner").mkdir(parents=True)
        (Path(name) / "policies.adm").write_text(SHOP)
        folder.chmod(0o000)
        privileged = os.geteuid() == 0
        if privileged:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if privileged:
                os.seteuid(0)
            folder.chmod(0o700)


@pytest.mark.long
def test_a_folder_that_is_closed_is_no_bug(admc: Admc, closed: Path) -> None:
    shop = closed.parent / "policies.adm"
    for arguments in (
        *([command, closed / "inner" / "x.adm"] for command in ("check", "compile", "explain", "graph", "fmt")),
        ["compile", shop, "--emit", closed / "inner"],
        ["compile", shop, "--emit", closed],
        ["compile", shop, "-o", closed / "inner" / "plan.json"],
        ["graph", shop, "-o", closed / "inner" / "x.svg"],
        ["compile", shop, "--emit", closed, "--endpoints", closed / "inner" / "e.json"],
        ["compile", shop, "--previous", closed / "inner" / "plan.json"],
    ):
        run = admc(*arguments)
        assert run.code == 1, (arguments, run)
        assert "permission denied" in run.out + run.err


def test_a_dash_is_no_file_to_write(admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.parent)
    for command in (["compile"], ["compile", "--emit", "out"], ["graph"]):
        run = admc(*command, shop, "-o", "-")
        assert (run.code, run.out) == (1, "")
        assert "ADM803" in run.err
    assert [path.name for path in Path().iterdir()] == ["policies.adm"]


@pytest.mark.parametrize("format_", ["json", "sarif", "markdown", "github"])
def test_a_usage_error_in_the_format_that_was_asked_for(admc: Admc, format_: str) -> None:
    run = admc("compile", "--format", format_, "--no-such-option")
    assert (run.code, run.err) == (1, "")
    assert "ADM801" in run.out
    if format_ in ("json", "sarif"):
        assert json.loads(run.out)


def test_json_and_another_format_both_want_the_output(admc: Admc, shop: Path) -> None:
    run = admc("compile", shop, "--json", "--format", "sarif")
    assert run.code == 1
    assert json.loads(run.out)["diagnostics"][0]["code"] == "ADM801"


def test_what_is_missing_or_not_a_program(admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "binary.adm").write_bytes(bytes(range(256)))
    for path in (tmp_path / "none.adm", tmp_path, tmp_path / "binary.adm"):
        for command in ("check", "compile", "explain", "graph"):
            run = admc(command, path)
            assert run.code == 1, (command, path, run)
            assert "error[ADM" in run.out + run.err
        assert admc("fmt", path).code == 1


def test_a_wrong_program(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path, WRONG)
    run = admc("check", path)
    assert run.code == 1
    assert "`crat`" in run.out
    assert "did you mean `cart`?" in run.out
    assert f"{path}:5:" in run.out
    run = admc("compile", path, "--format", "json")
    assert run.code == 1
    document = json.loads(run.out)
    assert document["exit_code"] == 1
    assert len(document["diagnostics"]) >= 2
    assert not (tmp_path / "policies.plan.json").exists()


def test_an_impossible_program_names_its_lines(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path, IMPOSSIBLE)
    assert admc("check", path).code == 0
    run = admc("compile", path, "--format", "json")
    assert run.code == 3
    (found,) = json.loads(run.out)["diagnostics"]
    assert found["code"].startswith("ADM6")
    places = [found["location"], *(related["location"] for related in found["related"])]
    lines = [place["line"] for place in places]
    assert 4 in lines  # no adm
    assert set(lines) & {8, 9}  # the policy, or its narrowing
    assert found["hint"]
    for command in ("explain", "graph"):
        assert admc(command, path).code == 3


def test_a_conflict_of_order_points_at_the_policy_to_move(admc: Admc, tmp_path: Path) -> None:
    run = admc(
        "compile",
        write(
            tmp_path,
            "app shop\nservice a, b { http 80 }\ncall a -> b\n"
            "policy again = retry(attempts: 3) on a -> b\n"
            "@egress\npolicy quota = rate_limit(requests: 5, per: 1s) on a -> b\n",
        ),
    )
    assert run.code == 3
    lines = run.err.splitlines()
    assert lines[0].startswith("error[ADM606]")
    assert ":6:1" in lines[1] or ":5:1" in lines[1]
    (hint,) = [line for line in lines if line.startswith("  = hint: ")]
    assert "declare `quota` before `again`" in hint


def test_a_bug_is_reported_without_a_traceback(admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object, **_named: object) -> Compiled:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("admc.compile.pipeline.compile_program", broken)
    run = admc("compile", shop)
    assert (run.code, run.out) == (70, "")
    assert "ADM901" in run.err
    assert "ZeroDivisionError: division by zero" in run.err
    assert "admc/cli/compile.py" in run.err
    assert "Traceback" not in run.err
    run = admc("compile", shop, "--format", "json")
    assert json.loads(run.out)["exit_code"] == 70
    monkeypatch.setenv("ADMC_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["compile", str(shop)])


def test_a_placement_that_is_not_verified_is_a_bug(admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from solver.placement import Rule, Violation

    monkeypatch.setattr(
        "solver.verify.verifier.verify",
        lambda *_: (Violation(Rule.STATE, "two buckets for `quota`", "quota", "search"),),
    )
    run = admc("compile", shop)
    assert run.code == 70
    assert "error[ADM902]: the placement breaks R5: two buckets for `quota`" in run.err
    assert not shop.with_name("policies.plan.json").exists()


def test_interrupted(admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: object, **_named: object) -> Compiled:
        raise KeyboardInterrupt

    monkeypatch.setattr("admc.compile.pipeline.compile_program", interrupt)
    assert admc("compile", shop).code == 130


def test_not_proven(admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    import solver.place
    from solver.placement import Status

    real = solver.place.place

    def hurried(*arguments: object, **named: object) -> object:
        placement = real(*arguments, **named)  # type: ignore[arg-type]
        levels = tuple(level._replace(bound=0) for level in placement.objectives)
        return dataclasses.replace(placement, status=Status.FEASIBLE, objectives=levels)

    monkeypatch.setattr("solver.place.place", hurried)
    plan = shop.with_name("policies.plan.json")
    run = admc("compile", shop, "--require-optimal")
    assert run.code == 5
    assert "proven to be at least 0" in run.err
    assert not plan.exists()
    run = admc("compile", shop)
    assert run.code == 0
    assert "not proven optimal" in run.out
    assert json.loads(plan.read_text())["solver"]["status"] == "feasible"


def test_all_conflicts_are_shown_up_to_a_bound(tmp_path: Path, admc: Admc) -> None:
    head = (
        "app shop\nservice a, c { http 80 }\ncall a -> c\npolicy few = circuit_breaking(max_connections: 5) on * -> c\n"
    )
    path = tmp_path / "policies.adm"
    for count, shown in ((3, 3), (30, 20)):
        path.write_text(head + "".join(f"policy log{at} = access_log() on * -> c\n" for at in range(count)))
        run = admc("compile", path)
        assert run.code == 3
        assert run.err.count("error[ADM606]") == shown
        assert run.err.count("`circuit_breaking` acts after all filters (R6)") == shown
        assert ("there are more conflicts, which are shown once these are gone" in run.err) == (count > shown)


def test_a_branch_that_is_not_fetched(admc: Admc) -> None:
    run = admc("diff", "origin/never-fetched", "examples/emojivoto/policies.adm")
    assert run.code == 1
    assert "`origin/never-fetched` is neither a file nor a revision" in run.err
    assert "`git fetch origin never-fetched:refs/remotes/origin/never-fetched`" in run.err


def test_commands_that_are_suggested_quote_paths(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("my app", "a;b", "it's $(x)"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "p.adm"
        path.write_text("app x\nservice  a { http 80 }\n")
        for run in (admc("compile", f"{folder}/p.adm"), admc("fmt", "--check", f"{folder}/p.adm")):
            suggested = re.findall(
                r"`(admc (?:explain|compile|fmt) .*?)`(?:$| formats)", run.out + run.err, re.MULTILINE
            )
            assert suggested
            for line in suggested:
                assert f"{folder}/p.adm" in shlex.split(line)


def test_a_file_of_other_programs_is_no_program(admc: Admc, tmp_path: Path) -> None:
    part, empty = tmp_path / "part.adm", tmp_path / "empty.adm"
    part.write_text("service a { http 80 }\n")
    empty.write_text("")
    assert "a file for a `use` of other programs has none: give one of these programs" in admc("compile", part).err
    assert "for a `use`" not in admc("compile", empty).err
