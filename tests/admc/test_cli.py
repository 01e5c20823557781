"""The command line: exit codes, one document on standard output, and nothing that a program says gets through raw."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from admc.__main__ import main
from admc.cli.options import AdmMode
from admc.cli.serve import ServeLog, serve
from admc.pipeline import Compiled
from admc.serve.observe.events import LogFormat
from admc.serve.rollout.controller import DRAIN_SECONDS
from emitters.envoy import Mode
from tests.admc.programs import IMPOSSIBLE, SHOP, WRONG, write

ROOT = Path(__file__).parents[2]


class Run(NamedTuple):
    code: int
    out: str
    err: str


class Admc:
    """Runs command lines in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str | Path) -> Run:
        code = main([str(argument) for argument in arguments])
        out, err = self._capfd.readouterr()
        return Run(code, out, err)


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path, SHOP)


def process(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "admc", *arguments],
        cwd=cwd,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=60,
    )


# ---- exit codes ----


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
    ("inject", "x.adm"): ("there is no command `inject`", "`admc --help` lists all commands"),
    ("compile", "x.adm", "--frmat", "json"): ("there is no option `--frmat`", "did you mean `--format`?"),
    ("compile", "x.adm", "--effort", "much"): ("invalid value for `--effort`: `much` is not a number", "admc compile"),
    ("graph", "x.adm", "y.adm"): ("there is nothing to do with `y.adm`", "`admc graph --help`"),
    ("compile", "x.adm", "-o"): ("option `-o` requires an argument", "`admc compile --help`"),
    ("compile", "x.adm", "--emit", ""): ("`--emit` is given nothing", "is a variable of the shell not set?"),
    ("compile", "x.adm", "--emit="): ("`--emit` is given nothing", "is a variable of the shell not set?"),
    ("check", ""): ("an argument is empty", "is a variable of the shell not set?"),
    ("explain", "ADM606", "quota"): ("`ADM606` is no program", "`admc explain PROGRAM quota`"),
    ("explain", "ADM1"): ("`ADM1` is no program", "a code is `ADM` and three digits"),
    ("explain", "r99"): ("`r99` is no program", "the rules are `R1` to `R10`"),
    ("completion",): ("missing argument `SHELL`: choose from bash, zsh, fish", "`admc completion --help`"),
    ("explain", "rate_limt"): ("`rate_limt` is no program", "did you mean `rate_limit`?"),
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

    monkeypatch.setattr("admc.pipeline.compile_program", broken)
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

    monkeypatch.setattr("admc.pipeline.compile_program", interrupt)
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


# ---- compile ----


def test_compile_writes_the_plan_beside_the_program(admc: Admc, shop: Path) -> None:
    run = admc("compile", shop)
    assert (run.code, run.err) == (0, "")
    plan = shop.with_name("policies.plan.json")
    assert json.loads(plan.read_text())["app"] == "shop"
    assert f"wrote `{plan}`" in run.out
    assert "1 of 5 services gets an ADM" in run.out
    assert "search" in run.out
    assert "proven optimal" in run.out
    assert "up to date" in admc("compile", shop).out


def test_json_is_the_plan_and_writes_nothing(admc: Admc, shop: Path, tmp_path: Path) -> None:
    run = admc("compile", shop, "--json")
    assert run.code == 0
    assert not shop.with_name("policies.plan.json").exists()
    admc("compile", shop, "--json", "-o", tmp_path / "other.json")
    assert (tmp_path / "other.json").read_text() == run.out


@pytest.mark.parametrize("format_", ["text", "json", "markdown", "sarif", "github"])
def test_no_format_and_no_place_changes_the_plan(
    admc: Admc, shop: Path, tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = admc("compile", shop, "--json").out
    other = tmp_path / "other" / "place"
    other.mkdir(parents=True)
    monkeypatch.chdir(other)
    run = admc("compile", "../../policies.adm", "-o", "p.json", "--format", format_)
    assert run.code == 0
    assert (other / "p.json").read_text() == reference
    if format_ in ("json", "sarif"):
        assert json.loads(run.out)
    if format_ == "json":
        assert json.loads(run.out)["adms"] == len(json.loads(reference)["adms"])


def test_the_same_bytes_whatever_the_hash_seed_and_the_folder(shop: Path, tmp_path: Path) -> None:
    first = process("compile", str(shop), "--json", PYTHONHASHSEED="1")
    second = process("compile", "policies.adm", "--json", cwd=tmp_path, PYTHONHASHSEED="4242", LC_ALL="C")
    assert first.returncode == second.returncode == 0
    assert first.stdout == second.stdout


def test_an_existing_plan_survives_a_failure(admc: Admc, shop: Path) -> None:
    plan = shop.with_name("policies.plan.json")
    plan.write_text("precious")
    write(shop.parent, WRONG)
    assert admc("compile", shop).code == 1
    write(shop.parent, IMPOSSIBLE)
    assert admc("compile", shop).code == 3
    assert plan.read_text() == "precious"


def test_the_program_is_never_overwritten(admc: Admc, shop: Path) -> None:
    run = admc("compile", shop, "-o", shop)
    assert run.code == 1
    assert "ADM803" in run.err
    assert shop.read_text() == SHOP
    assert admc("graph", shop, "-o", shop).code == 1
    assert shop.read_text() == SHOP


def test_previous(admc: Admc, shop: Path, tmp_path: Path) -> None:
    admc("compile", shop)
    plan = shop.with_name("policies.plan.json")
    assert admc("compile", shop, "--previous", plan).code == 0
    plan.write_text(plan.read_text()[:-50])
    run = admc("compile", shop, "--previous", plan)
    assert run.code == 1
    assert "cut short" in run.err
    assert admc("compile", shop, "--previous", tmp_path / "none.json").code == 1


def test_a_previous_plan_of_another_application_is_a_warning(admc: Admc, shop: Path, tmp_path: Path) -> None:
    other = write(tmp_path, SHOP.replace("app shop", "app other"), "other.adm")
    admc("compile", other, "-o", tmp_path / "other.json")
    run = admc("compile", shop, "--previous", tmp_path / "other.json")
    assert run.code == 0
    assert "warning[ADM811]" in run.err


# ---- what programs say ----


def test_nothing_a_program_says_reaches_the_terminal_raw(admc: Admc, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "app \x1b[31mshop\nservice \x9b2J\u202e { http 8080 }\npolicy x = \x07() on * -> \x1b]0;x\x07\n",
    )
    for arguments in (
        ("check", path),
        ("compile", path),
        ("fmt", path),
        *(("check", path, "--format", format_) for format_ in ("json", "markdown", "sarif", "github")),
    ):
        run = admc(*arguments)
        assert run.code == 1
        shown = run.out + run.err
        assert all(character == "\n" or character.isprintable() for character in shown), arguments


def test_a_reader_that_goes_away_is_no_error(shop: Path) -> None:
    command = f"{sys.executable} -m admc compile {shop} --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=60)
    assert done.stdout.startswith(b"{")
    assert done.stdout.endswith(b"0\n")
    assert done.stderr == b""


def test_a_full_standard_output_is_reported(shop: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "admc", "compile", str(shop), "--json"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 1
    assert b"ADM803" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("compile", "--help"), ("--version",)], ids=" ".join)
def test_help_needs_no_reader(arguments: tuple[str, ...]) -> None:
    command = f"{sys.executable} -m admc {' '.join(arguments)} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def into_a_full_disk(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        return subprocess.run(
            [sys.executable, "-m", "admc", *arguments], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=60
        )


@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help"), ("check", "no.adm", "--format", "json")])
def test_a_full_standard_output_is_no_bug(arguments: tuple[str, ...]) -> None:
    done = into_a_full_disk(*arguments)
    assert done.returncode == 1
    assert b"ADM803" in done.stderr


def test_a_failure_that_standard_output_does_not_take_is_told_on_standard_error(tmp_path: Path) -> None:
    done = into_a_full_disk("compile", str(write(tmp_path, IMPOSSIBLE)), "--format", "json")
    assert done.returncode == 3
    assert b"no correct placement" in done.stderr
    assert b"ADM803" in done.stderr


# ---- other commands ----


def test_check(admc: Admc, shop: Path) -> None:
    run = admc("check", shop)
    assert run.code == 0
    assert "no errors (5 services, 1 external," in run.out
    assert "warning[" in run.out
    assert json.loads(admc("check", shop, "--format", "json").out)["policies"] == 4


def test_check_never_solves(shop: Path) -> None:
    probe = (
        "import sys; from admc.__main__ import main; code = main(['check', *sys.argv[1:]]); "
        "heavy = {'ortools', 'google.protobuf', 'rich', 'jsonschema', 'solver.place'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, str(shop), str(shop.parent)], cwd=ROOT, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_fmt(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path, "app   shop   // name\n\n\n\nservice cart   {http 8080}\n")
    before = path.read_text()
    run = admc("fmt", "--check", path)
    assert run.code == 1
    assert "ADM808" in run.err
    run = admc("fmt", "--diff", path)
    assert run.code == 0
    assert "-app   shop   // name" in run.out
    assert path.read_text() == before
    assert admc("fmt", path).code == 0
    after = path.read_text()
    assert after != before
    assert "// name" in after
    assert admc("fmt", "--check", path).code == 0
    assert admc("fmt", path).out == ""
    assert path.read_text() == after


def test_fmt_formats_what_it_can(admc: Admc, tmp_path: Path) -> None:
    good = write(tmp_path, "app   shop\n", "good.adm")
    bad = write(tmp_path, "app = = (\n", "bad.adm")
    run = admc("fmt", bad, good)
    assert run.code == 1
    assert "bad.adm:1" in run.err
    assert good.read_text() == "app shop\n"


def test_fmt_counts_all_findings_once(admc: Admc, tmp_path: Path) -> None:
    wrong, odd = write(tmp_path, "app\n", "wrong.adm"), write(tmp_path, "app   shop\n", "odd.adm")
    run = admc("fmt", "--check", wrong, odd, tmp_path / "none.adm")
    assert run.code == 1
    assert run.err.endswith("\n\n3 errors\n")
    assert run.err.count("error[") == 3


def test_fmt_shows_nothing_of_what_is_no_program(admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "env").write_text("PASSWORD=hunter2\n")
    (tmp_path / "policies.adm").symlink_to("env")
    for option in ("--check", "--diff"):
        run = admc("fmt", option, tmp_path / "policies.adm")
        assert run.code == 1
        assert "it is a link to a file with another suffix" in run.err
        assert "hunter2" not in run.out + run.err


READING: dict[str, tuple[str, ...]] = {
    "compile": ("--json",),
    "check": (),
    "explain": (),
    "graph": (),
    "serve": ("--xds", "127.0.0.1:0"),
}
"""Commands that read a program, and what else they want; `serve` stops at the certificates that it has not."""


@pytest.mark.parametrize("command", READING)
def test_every_command_that_reads_a_program_takes_folders_for_its_files(
    admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in ("app", "shared", "more"):
        (tmp_path / name).mkdir()
    write(tmp_path / "app", f'use "../shared/a.adm"\nuse "../more/b.adm"\n{SHOP}')
    write(tmp_path / "shared", "", "a.adm")
    write(tmp_path / "more", "", "b.adm")
    monkeypatch.chdir(tmp_path)
    both = ("--include", "shared", "--include", "more")
    if command == "serve":
        assert "ADM850" in admc(command, "app/policies.adm", *both, *READING[command]).err
    else:
        refused = admc(command, "app/policies.adm", "--include", "more", *READING[command])
        assert refused.code == 1
        assert "ADM509" in refused.out + refused.err
        assert "--include shared" in refused.out + refused.err
        assert admc(command, "app/policies.adm", *both, *READING[command]).code == 0
    for name in ("none", "app/policies.adm"):
        run = admc(command, "app/policies.adm", "--include", name, *READING[command])
        assert run.code == 1
        assert "ADM826" in run.out + run.err


def test_where_an_included_folder_is_changes_no_byte_of_a_plan(admc: Admc, tmp_path: Path) -> None:
    plans = []
    for place in ("one", "two/deeper"):
        for name in ("app", "shared"):
            (tmp_path / place / name).mkdir(parents=True)
        program = write(tmp_path / place / "app", f'use "../shared/a.adm"\n{SHOP}')
        write(tmp_path / place / "shared", "", "a.adm")
        plans.append(admc("compile", program, "--include", tmp_path / place / "shared", "--json").out)
    assert plans[0] == plans[1]
    assert '"../shared/a.adm"' in plans[0]


def test_fmt_shows_nothing_of_what_is_elsewhere(admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    write(tmp_path, "app   hunter2\n", "secret.adm")
    (tmp_path / "app" / "policies.adm").symlink_to("../secret.adm")
    run = admc("fmt", "--diff", tmp_path / "app" / "policies.adm")
    assert run.code == 1
    assert "it is a link that leads out of its folder" in run.err
    assert "hunter2" not in run.out + run.err


def test_fmt_of_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "admc", "fmt", "-"], cwd=ROOT, input=b"app   shop\n", capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, b"app shop\n")


@pytest.mark.parametrize("format_", ["mermaid", "dot", "svg"])
def test_graph(admc: Admc, shop: Path, tmp_path: Path, format_: str) -> None:
    run = admc("graph", shop, "--format", format_)
    assert run.code == 0
    assert "search" in run.out
    suffix = {"mermaid": "mmd"}.get(format_, format_)
    for options, name in (
        ((), f"a.{suffix}"),
        (("--format", format_), f"b.{suffix}"),
        ((), f"C.{suffix.upper()}"),
        ((), f"d.e.{suffix}"),
    ):
        assert admc("graph", shop, *options, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).read_text() == run.out


NO_PICTURES = {
    ("-o", "x.png"): ("`x.png` does not end like a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "picture"): ("`picture` does not end like a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "picture", "--format", "svg"): ("`picture` does not end like a picture", "write `-o picture.svg`"),
    ("-o", "/", "--format", "svg"): ("`/` does not end like a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", ".svg"): ("`.svg` does not end like a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "x.svg.gz"): ("`x.svg.gz` does not end like a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "x.svg", "--format", "dot"): ("`--format dot` and `x.svg` contradict each other", "write `-o x.dot`"),
    ("-o", "x.mmd", "--format", "svg"): ("`--format svg` and `x.mmd` contradict each other", "write `-o x.svg`"),
}


@pytest.mark.parametrize("options", NO_PICTURES, ids=" ".join)
def test_the_name_of_a_picture_says_its_format(
    admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(shop.parent)
    said, hint = NO_PICTURES[options]
    for program in ("policies.adm", "none.adm"):  # found before anything is read
        run = admc("graph", program, *options)
        assert (run.code, run.out) == (1, "")
        assert f"error[ADM801]: {said}" in run.err
        assert hint in run.err
    assert [entry.name for entry in shop.parent.iterdir()] == ["policies.adm"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(admc: Admc, shell: str) -> None:
    run = admc("completion", shell)
    assert run.code == 0
    assert "_ADMC_COMPLETE" in run.out


def test_completion_completes() -> None:
    done = process(_ADMC_COMPLETE="complete_bash", COMP_WORDS="admc comp", COMP_CWORD="1")
    assert done.stdout.split() == [b"compile", b"completion"]


def test_doctor(admc: Admc) -> None:
    run = admc("doctor", "--format", "json")
    found = {finding["subject"]: finding for finding in json.loads(run.out)["findings"]}
    assert found["solver"]["verdict"] == "ok"
    assert found["protobuf"]["verdict"] == "ok"
    assert run.code == (1 if any(finding["verdict"] == "wrong" for finding in found.values()) else 0)
    assert "python" in admc("doctor").out


def test_doctor_tells_a_version_that_does_not_fit(admc: Admc, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "99.1" if name == "protobuf" else real(name))
    run = admc("doctor")
    assert run.code == 1
    assert "99.1, and admc needs" in run.out


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams_are_no_bug(shop: Path, closed: str) -> None:
    for command, code in ((f"check {shop}", 0), (f"compile {shop}", 0), ("check none.adm", 1), ("fmt -", 0)):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m admc {command} {closed}"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == code, (command, done.stderr)
        assert b"Traceback" not in done.stderr


def test_progress_and_colour_go_to_terminals_only(shop: Path) -> None:
    """With a terminal as standard error the stages show, and are gone from the line at the end."""
    import pty

    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "admc", "compile", str(shop)], cwd=ROOT, stdout=subprocess.PIPE, stderr=follower
    ) as running:
        assert running.stdout is not None
        out = running.stdout.read()
    os.close(follower)
    shown = os.read(leader, 10_000)
    os.close(leader)
    assert b"solving ..." in shown
    assert shown.endswith(b"\r\x1b[K")
    assert b"\x1b" not in out


def test_a_dumb_terminal_gets_no_control_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    from admc import output

    written: list[str] = []
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(output, "write_error", written.append)
    monkeypatch.setenv("TERM", "dumb")
    progress = output.Progress()
    progress("solving")
    progress.clear()
    assert written == []


@pytest.mark.parametrize("columns", [40, 60, 80, 91, 92, 120])
def test_the_summary_breaks_no_word_on_a_narrow_terminal(tmp_path: Path, columns: int) -> None:
    from admc.pipeline import compile_program
    from admc.plan.summary import summarize
    from admc.render.summary_text import render

    compiled = compile_program(write(tmp_path, SHOP))
    summary = summarize(compiled.program, compiled.plan)
    shown = render(summary, "", (), colour=False, width=columns)
    assert all(len(line) <= columns for line in shown.splitlines())
    for adm in compiled.plan.adms:
        for word in (adm.service, *(item.policy for item in adm.policies)):
            assert word in shown
    for row in summary.rows:
        assert set(row.because.split()) <= set(shown.split())


def test_an_explanation_fits_a_narrow_terminal() -> None:
    import pty
    import termios

    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 50))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-m", "admc", "explain", "rate_limit"],
        cwd=ROOT,
        env=environment,
        stdout=follower,
        stderr=subprocess.PIPE,
    ) as running:
        running.wait(60)
    os.close(follower)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    prose = shown.split("elsewhere:")[0]
    assert "at ingress" in prose
    assert all(len(line) <= 50 for line in prose.splitlines())


def test_no_color(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from admc import terminal

    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    path = write(tmp_path, WRONG)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31merror" in admc("check", path).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in admc("check", path).out


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (("parts.adm", "b/shop.adm"), "hint: name a program in it, such as `b/shop.adm`"),
        ((), "hint: name the file of a program: `policies.adm`"),
    ],
)
def test_a_folder_where_one_program_is_expected(
    files: tuple[str, ...], hint: str, admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").mkdir()
    for name in files:
        write(tmp_path, "policy p = deny() on a -> b\n" if name == "parts.adm" else "app shop\n", name)
    monkeypatch.chdir(tmp_path)
    for command in ("compile", "graph"):
        for folder in (".", str(tmp_path)):
            done = admc(command, folder)
            assert done.code == 1
            assert f"cannot read `{folder}`: it is a folder" in done.err
            assert hint.replace("b/", f"{folder}/b/".removeprefix("./")) in done.err


@pytest.mark.parametrize("module", ["admc.exits", "dsl.diagnostics.diagnostic", "admc.cli.app"])
def test_ctrl_c_while_a_module_loads(module: str, tmp_path: Path) -> None:
    finder = f"""import os, signal, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""
    write(tmp_path, finder, "sitecustomize.py")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from admc.__main__ import main; sys.exit(main(['--help']))"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (130, b"interrupted")


def test_ctrl_c_in_executed_text(tmp_path: Path) -> None:
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass"
    write(tmp_path, f"import admc.cli.app\nadmc.cli.app.run = lambda typed: exec({text!r})\n", "sitecustomize.py")
    done = subprocess.run(
        [sys.executable, "-m", "admc", "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (130, b"interrupted")


@pytest.mark.parametrize("stage", ["reading", "solving"])
def test_ctrl_c_while_it_works(tmp_path: Path, stage: str) -> None:
    import pty
    import random
    import signal

    # A cover of this graph is not proven in a lifetime, so it still works whenever the signal comes.
    chance = random.Random(5)  # noqa: S311
    calls = {tuple(chance.sample(range(400), 2)) for _ in range(1200)}
    lines = [f"service s{number} {{ http 80 }}" for number in range(400)]
    lines += [f"call s{source} -> s{destination}" for source, destination in sorted(calls)]
    path = write(tmp_path, "app big\n" + "\n".join(lines) + "\npolicy log = access_log() on * -> *\n")
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "admc", "compile", str(path), "--effort", "1000000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=follower,
    ) as running:
        shown = b""
        while f"{stage} ...".encode() not in shown:
            shown += os.read(leader, 10_000)
        running.send_signal(signal.SIGINT)
        try:
            out, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    os.close(follower)
    shown += os.read(leader, 10_000)
    os.close(leader)
    assert b"Traceback" not in shown
    assert running.returncode == 130, shown
    assert out == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["policies.adm"]


def test_options_say_the_same_as_what_they_are_for() -> None:
    # They do not ask it: whoever asks for help need not wait for all that it imports.
    assert [*AdmMode] == [*Mode]
    assert [*ServeLog] == [*LogFormat]
    assert inspect.signature(serve).parameters["drain"].default == DRAIN_SECONDS
