"""`check` and `fmt` of several programs, folders and standard input; `compile -`; warnings as errors."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from admc.base.exits import Exit, worst
from admc.compile import programs
from tests.cli.command import Admc
from tests.cli.programs import IMPOSSIBLE, SHOP, WRONG, write

LIBRARY = "service lib { http 1 }\n"
PLAIN = "app plain\nservice a, b { http 80 }\ncall a -> b\n"


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two programs, one of them with a warning, and all that is no program."""
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "two/deep", "two/.git", "two/node_modules/x", "none/x.adm"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path / "one", PLAIN)
    write(tmp_path / "two/deep", SHOP, "shop.adm")
    write(tmp_path / "two", LIBRARY, "library.adm")
    write(tmp_path / "two", "service s { http 1  labels {\n app\n} }\n// app x\nservice app { http 1 }\n", "no_app.adm")
    write(tmp_path / "two/.git", WRONG)
    write(tmp_path / "two/node_modules/x", WRONG)
    write(tmp_path / "two", WRONG, ".hidden.adm")
    write(tmp_path / "two", WRONG, "wrong.txt")
    (tmp_path / "two/circle").symlink_to(tmp_path, target_is_directory=True)
    return tmp_path


def stdin(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    content = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


# ---- which programs ----


def test_a_folder_stands_for_the_programs_below_it(admc: Admc, tree: Path) -> None:
    run = admc("check", ".", "--format", "json")
    assert run.code == 0
    document = json.loads(run.out)
    assert [(item["path"], item["app"]) for item in document["programs"]] == [
        ("one/policies.adm", "plain"),
        ("two/deep/shop.adm", "shop"),
    ]
    assert [item["location"]["path"] for item in document["diagnostics"]] == ["two/deep/shop.adm"]


def test_a_program_that_is_named_twice_is_checked_once(admc: Admc, tree: Path) -> None:
    run = admc("check", "one", "one/policies.adm", "./one/policies.adm", tree / "one", "one")
    assert (run.code, run.out.count("no errors")) == (0, 1)


def test_a_link_to_a_program_is_checked_and_a_broken_one_is_reported(admc: Admc, tree: Path) -> None:
    (tree / "one/again.adm").symlink_to("policies.adm")
    assert admc("check", "one").out.count("no errors") == 2
    (tree / "one/gone.adm").symlink_to("nowhere.adm")
    (tree / "one/round.adm").symlink_to("round.adm")
    run = admc("check", "one")
    assert run.code == 1
    assert "cannot read `one/gone.adm`" in run.out
    assert "cannot read `one/round.adm`" in run.out


def test_a_special_file_is_reported_and_does_not_block(admc: Admc, tree: Path) -> None:
    os.mkfifo(tree / "one/pipe.adm")
    run = admc("check", "one")
    assert run.code == 1
    assert "it is not a regular file" in run.out


@pytest.mark.parametrize("text", ["app\n", "\ufeffapp x y\n", "service a { http 80\napp x\n", "call a ->\napp x = 1\n"])
def test_a_wrong_app_line_makes_a_program_all_the_same(admc: Admc, tree: Path, text: str) -> None:
    write(tree / "one", text)
    assert admc("check", "one").code == 1


def test_a_folder_without_programs_is_an_error(admc: Admc, tree: Path) -> None:
    for folder in ("none", "two/node_modules/x/../../../none"):
        run = admc("check", folder, "one")
        assert run.code == 1
        assert f"error[ADM812]: there is no program in `{folder}`" in run.out
        assert "one/policies.adm: no errors" in run.out
    run = admc("fmt", "none")
    assert run.code == 1
    assert "error[ADM812]: there is no file of a program in `none`" in run.err


def test_a_folder_is_searched_within_bounds(admc: Admc, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_DEPTH", 1)
    assert "error[ADM813]" in admc("check", "two").out + admc("check", ".").out
    monkeypatch.setattr(programs, "MAX_ENTRIES", 2)
    assert "error[ADM813]: the folder `.` is too large" in admc("check", ".").out


def test_a_folder_that_cannot_be_read_is_an_error(admc: Admc, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == "deep":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read everything
    run = admc("check", ".")
    assert run.code == 1
    assert "error[ADM802]: cannot read the folder `two/deep`" in run.out


# ---- one document, one exit code ----


@pytest.mark.parametrize("format_", ["text", "json", "markdown", "sarif", "github"])
def test_several_programs_are_one_document(admc: Admc, tree: Path, format_: str) -> None:
    write(tree / "one", WRONG, "wrong.adm")
    run = admc("check", "one", "two", "absent.adm", "--format", format_)
    assert (run.code, run.err) == (1, "")
    shown = run.out.replace("\\", "")
    for path in ("one/wrong.adm", "two/deep/shop.adm", "absent.adm"):
        assert path in shown
    if format_ == "json":
        document = json.loads(run.out)
        assert document["exit_code"] == 1
        assert [(item["path"], item["exit_code"]) for item in document["programs"]] == [
            ("one/policies.adm", 0),
            ("one/wrong.adm", 1),
            ("two/deep/shop.adm", 0),
            ("absent.adm", 1),
        ]
    if format_ == "sarif":
        (sarif,) = json.loads(run.out)["runs"]
        assert sarif["invocations"] == [{"executionSuccessful": False, "exitCode": 1}]
    if format_ == "github":
        assert run.out.count("::warning file=two/deep/shop.adm") == 1
    if format_ == "text":
        assert run.out.count(" error") >= 1
        assert "one/wrong.adm: has errors" in run.out


def test_one_program_has_the_document_that_it_had(admc: Admc, tree: Path) -> None:
    document = json.loads(admc("check", "one/policies.adm", "--format", "json").out)
    assert document["app"] == "plain"
    assert "programs" not in document
    assert json.loads(admc("check", "one", "--format", "json").out)["programs"][0]["app"] == "plain"


def test_a_finding_in_a_file_of_two_programs_is_reported_once(admc: Admc, tree: Path) -> None:
    write(tree / "one", "policy p = retri() on a -> b\n", "library.adm")
    for name in ("x.adm", "y.adm"):
        write(tree / "one", f'use "library.adm"\n{PLAIN}', name)
    run = admc("check", "one", "--format", "json")
    assert run.code == 1
    assert [item["location"]["path"] for item in json.loads(run.out)["diagnostics"]] == ["one/library.adm"]


def test_the_worst_exit_code() -> None:
    order = [Exit.INPUT, Exit.NO_PLACEMENT, Exit.NOT_PROVEN, Exit.GATE, Exit.CHANGES, Exit.DONE]
    for index, code in enumerate(order):
        assert worst(reversed(order[index:])) is code
    assert worst([]) is Exit.DONE


# ---- standard input ----


def test_check_of_standard_input(admc: Admc, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, 'use "two/library.adm"\n' + WRONG)
    run = admc("check", "-", "one")
    assert run.code == 1
    assert "--> <stdin>:6:" in run.out
    assert "one/policies.adm: no errors" in run.out
    for content in (b"", b"\xff\n", b"app x\0"):
        stdin(monkeypatch, content)
        run = admc("check", "-")
        assert run.code == 1
        assert "error[ADM" in run.out
    monkeypatch.setattr("sys.stdin", None)
    assert admc("check", "-").code == 1


def test_compile_of_standard_input(admc: Admc, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are those of the working directory, and its plan is that of the same text in a file."""
    text = 'use "two/library.adm"\n' + SHOP
    stdin(monkeypatch, text)
    run = admc("compile", "-", "--json")
    assert (run.code, run.err) == (0, "")
    plan = json.loads(run.out)
    assert [item["path"] for item in plan["inputs"]] == ["<stdin>", "two/library.adm"]
    write(tree, text)
    assert json.loads(admc("compile", "policies.adm", "--json").out)["enforcements"] == plan["enforcements"]
    stdin(monkeypatch, text)
    run = admc("compile", "-", "-o", "plan.json")
    assert run.code == 0
    assert "wrote `plan.json`" in run.out
    assert "admc explain -" not in run.out
    assert json.loads(Path("plan.json").read_text()) == plan


@pytest.mark.parametrize("more", [(), ("--emit", "out"), ("--format", "json")])
def test_standard_input_has_no_place_for_a_plan(
    admc: Admc, tree: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    stdin(monkeypatch, SHOP)
    before = sorted(tree.rglob("*"))
    run = admc("compile", "-", *more)
    assert run.code == 1
    assert "ADM801" in run.out + run.err
    assert "-o FILE" in run.out + run.err
    assert sorted(tree.rglob("*")) == before


def test_a_program_from_standard_input_is_not_overwritten_by_its_plan(
    admc: Admc, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, 'use "two/library.adm"\n' + SHOP)
    assert admc("compile", "-", "-o", "two/library.adm").code == 1
    assert (tree / "two/library.adm").read_text() == LIBRARY


# ---- warnings as errors ----


@pytest.mark.parametrize("format_", ["text", "json", "sarif", "github"])
def test_check_with_warnings_as_errors(admc: Admc, tree: Path, format_: str) -> None:
    assert admc("check", "one", "--warnings-as-errors", "--format", format_).code == 0
    run = admc("check", "one", "two", "--warnings-as-errors", "--format", format_)
    assert (run.code, run.err) == (1, "")
    assert "ADM814" in run.out
    assert "there is a warning" in run.out
    if format_ == "json":
        assert json.loads(run.out)["exit_code"] == 1


def test_a_program_with_warnings_that_count_is_not_called_right(admc: Admc, tree: Path) -> None:
    assert "shop.adm: no errors (" in admc("check", "two/deep/shop.adm").out
    run = admc("check", "one", "two", "--warnings-as-errors")
    assert "two/deep/shop.adm: has warnings (" in run.out
    assert "one/policies.adm: no errors (" in run.out
    run = admc("check", "one", "two", "--warnings-as-errors", "--format", "json")
    assert [program["exit_code"] for program in json.loads(run.out)["programs"]] == [0, 1]


def test_compile_with_warnings_as_errors_writes_nothing(admc: Admc, tree: Path) -> None:
    run = admc("compile", "two/deep/shop.adm", "--warnings-as-errors", "--emit", "out")
    assert (run.code, run.out) == (1, "")
    assert "warning[ADM404]" in run.err
    assert "error[ADM814]" in run.err
    assert not Path("out").exists()
    assert not Path("two/deep/shop.plan.json").exists()
    assert admc("compile", "one/policies.adm", "--warnings-as-errors").code == 0
    impossible = write(tree, IMPOSSIBLE)
    assert admc("compile", impossible, "--warnings-as-errors").code == 3
    write(tree, IMPOSSIBLE + "policy none = access_log() on db -> cart\n")
    assert admc("compile", impossible, "--warnings-as-errors").code == 1


def test_warnings_of_compile_itself_count_as_well(admc: Admc, tree: Path) -> None:
    """A plan of another application, and a file of an earlier emit that was changed and would stay."""
    admc("compile", "two/deep/shop.adm")
    before = (tree / "one/policies.adm").read_text()
    run = admc("compile", "one/policies.adm", "--previous", "two/deep/shop.plan.json", "--warnings-as-errors")
    assert run.code == 1
    assert "warning[ADM811]" in run.err
    admc("compile", "two/deep/shop.adm", "--emit", "out")
    edited = tree / "out/search/bootstrap.yaml"
    edited.write_text("mine\n")
    manifest = (tree / "out/.admc-manifest.json").read_bytes()
    run = admc("compile", "one/policies.adm", "--emit", "out", "--warnings-as-errors")
    assert run.code == 1
    assert "warning[ADM810]" in run.err
    assert (tree / "out/.admc-manifest.json").read_bytes() == manifest
    assert not Path("one/policies.plan.json").exists()
    assert (tree / "one/policies.adm").read_text() == before
    run = admc("compile", "one/policies.adm", "--emit", "out")
    assert run.code == 0
    assert "warning[ADM810]" in run.err
    assert admc("compile", "one/policies.adm", "--emit", "out", "--force", "--warnings-as-errors").code == 0
    assert not edited.exists()


# ---- fmt ----


def test_fmt_of_a_folder(admc: Admc, tree: Path) -> None:
    """Every `.adm`, programs or not, that lies there and is no link."""
    for path in ("one/policies.adm", "two/library.adm"):
        (tree / path).write_text("app   x\n")
    (tree / "one/link.adm").symlink_to("../two/library.adm")
    run = admc("fmt", "--check", ".")
    assert run.code == 1
    assert [line.split("`")[1] for line in run.err.splitlines() if "ADM808" in line] == [
        "one/policies.adm",
        "two/library.adm",
        "two/no_app.adm",
        "two/deep/shop.adm",
    ][: run.err.count("ADM808")]
    assert run.err.count("ADM808") >= 3
    run = admc("fmt", ".")
    assert run.code == 0
    assert "formatted two/library.adm" in run.out
    assert (tree / "one/link.adm").is_symlink()
    assert (tree / "two/.hidden.adm").read_text() == WRONG
    assert (tree / "two/wrong.txt").read_text() == WRONG
    assert admc("fmt", "--check", ".").code == 0


def test_files_that_standard_input_names_lie_in_the_working_directory(
    admc: Admc, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree / "one")
    text = 'use "../two/library.adm"\n' + PLAIN
    stdin(monkeypatch, text)
    assert admc("check", "-").code == 1
    for command in (("check", "-"), ("compile", "-", "--json")):
        stdin(monkeypatch, text)
        assert admc(*command, "--include", "../two").code == 0


def test_a_note_is_no_warning(admc: Admc, tree: Path) -> None:
    text = PLAIN + "policy again = retry(attempts: 3) on a -> b\npolicy late = timeout(after: 1s) on a -> b\n"
    path = write(tree / "one", text)
    for command in ("check", "compile"):
        run = admc(command, path, "--warnings-as-errors", "--format", "json")
        assert run.code == 0
        assert "note" in [item["severity"] for item in json.loads(run.out)["diagnostics"]]
