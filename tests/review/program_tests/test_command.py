"""`admc test`: its output as text, JSON and JUnit, its exit codes, and which files it reads.

After a wanted change `ADMC_SNAPSHOTS=1 python -m pytest tests/review/program_tests/test_command.py` writes the
snapshots anew; review the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from admc.base.exits import Exit
from admc.review.program_tests import junit as tests_junit
from admc.review.program_tests import text as tests_text
from admc.review.program_tests.model import NumberExpectation, ProgramTest
from admc.review.program_tests.results import FileResults, RunResults
from admc.review.program_tests.verdict import Failed
from dsl.text import SourceText, Span
from tests.cli.command import ROOT, Admc
from tests.cli.programs import IMPOSSIBLE, SHOP, WRONG, write

SNAPSHOTS = Path(__file__).parent / "snapshots"
PASSES = "test geo_stays_out = geo -> rate is refused by who_reads\ntest few = adms <= 4\n"
FAILS = "test geo_reads = geo -> rate is admitted\n\ntest bare = no adm at *\n"
OPEN = 'test slow = frontend -> search { path "/a.B/C" } is refused by quota\ntest deny = search -> geo meets flagged\n'
FLAGGED = 'policy flagged = request_count() on search -> geo when header("x-flag") == "1"\n'


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of each kind, with their tests."""
    monkeypatch.chdir(tmp_path)
    for name, program, tests in (
        ("good", SHOP, PASSES),
        ("bad", SHOP + FLAGGED, PASSES + FAILS + OPEN),
        ("fails", SHOP, FAILS),
        ("wrong", WRONG, PASSES),
        ("impossible", IMPOSSIBLE, "test few = adms <= 4\n"),
        ("typo", SHOP, "test few = adms <= 4\ntest geo = goe -> rate is refused by who_reeds\n"),
    ):
        (tmp_path / name).mkdir()
        write(tmp_path / name, program, f"{name}.adm")
        write(tmp_path / name, tests, f"{name}.test.adm")
    return tmp_path


def compare(name: str, found: str) -> None:
    path = SNAPSHOTS / name
    if os.environ.get("ADMC_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("format_", ["text", "json", "junit"])
def test_output(admc: Admc, format_: str) -> None:
    programs = [f"{name}/{name}.adm" for name in ("good", "bad", "wrong", "impossible", "typo")]
    run = admc("test", *programs, "--format", format_)
    assert run.code == Exit.INPUT
    out = run.out if format_ == "text" else run.out.replace(json.dumps(_version()), '"VERSION"')
    compare(f"results.{format_}", out)
    if format_ == "text":
        compare("results.findings", run.err)
    else:
        assert run.err == ""


def _version() -> str:
    from admc import __version__

    return __version__


@pytest.mark.parametrize(
    ("programs", "code"),
    [
        (["good"], Exit.DONE),
        (["fails"], Exit.GATE),
        (["impossible"], Exit.NO_PLACEMENT),
        (["wrong"], Exit.INPUT),
        (["typo"], Exit.INPUT),
        (["bad"], Exit.INPUT),  # it has an undecided test beside the failing ones
        (["good", "fails"], Exit.GATE),
        (["fails", "impossible"], Exit.NO_PLACEMENT),
        (["impossible", "typo"], Exit.INPUT),
    ],
)
@pytest.mark.parametrize("format_", ["text", "json", "junit"])
def test_exit_codes_are_the_same_in_every_format(admc: Admc, programs: list[str], code: Exit, format_: str) -> None:
    run = admc("test", *(f"{name}/{name}.adm" for name in programs), "--format", format_)
    assert run.code == code
    if format_ == "json":
        assert json.loads(run.out)["exit_code"] == code
    if format_ == "junit":
        suites = ElementTree.fromstring(run.out)  # noqa: S314 - our own document
        assert len(suites) == len(programs)
        bad = sum(len(case) for suite in suites for case in suite)
        assert bad == int(suites.get("failures", "")) + int(suites.get("errors", ""))
        assert bool(bad) is (code != Exit.DONE)


def test_a_program_its_tests_and_their_folder_stand_for_the_same(admc: Admc) -> None:
    runs = [admc("test", name) for name in ("good/good.adm", "good/good.test.adm", "good")]
    assert [run.code for run in runs] == [Exit.DONE] * 3
    assert len({run.out for run in runs}) == 1
    together = admc("test", "good/good.adm", "good/good.test.adm", "good")
    assert together.out == runs[0].out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing.adm"], "ADM501", "cannot read `nothing.adm`"),
        (["good/god.adm"], "ADM501", "did you mean `good/good.adm`?"),
        (["alone.adm"], "ADM845", "`alone.adm` has no tests"),
        (["empty.adm"], "ADM845", "there is no test in `empty.test.adm`"),
        (["bare"], "ADM845", "there is no test in `bare`"),
        (["-"], "ADM801", "tests are not read from standard input"),
        (["lost.test.adm"], "ADM501", "cannot read `lost.adm`"),
    ],
)
def test_what_cannot_be_tested(admc: Admc, folder: Path, arguments: list[str], code: str, message: str) -> None:
    write(folder, SHOP, "alone.adm")
    write(folder, SHOP, "empty.adm")
    write(folder, "// none yet\n", "empty.test.adm")
    write(folder, PASSES, "lost.test.adm")
    (folder / "bare").mkdir()
    run = admc("test", *arguments)
    assert run.code == Exit.INPUT
    assert f"error[{code}]" in run.err
    assert message in run.err


def test_a_file_of_tests_is_no_program(admc: Admc, folder: Path) -> None:
    write(folder / "good", "app good\n" + PASSES, "other.test.adm")  # the `app` line is an error, and no program
    document = json.loads(admc("check", "good", "--format", "json").out)
    assert [each["path"] for each in document["programs"]] == ["good/good.adm"]
    for command in ("compile", "explain", "graph"):
        run = admc(command, "good/good.test.adm")
        assert run.code == Exit.INPUT
        assert "error[ADM846]" in run.err
        assert "`good/good.adm`" in run.err
    run = admc("compile", "good")
    assert "good/good.adm" in run.err


def test_check_of_a_file_of_tests(admc: Admc, folder: Path) -> None:
    run = admc("check", "good/good.test.adm")
    assert run.code == Exit.DONE
    assert "good/good.test.adm: no errors (1 external" not in run.out
    assert "2 tests" in run.out
    wrong = admc("check", "typo/typo.test.adm")
    assert wrong.code == Exit.INPUT
    assert "did you mean `geo`?" in wrong.out
    assert "did you mean `who_reads`?" in wrong.out
    # Whether tests hold is not asked: that takes a placement.
    assert admc("check", "fails/fails.test.adm").code == Exit.DONE


def test_a_file_of_tests_may_be_a_link_into_an_included_folder(admc: Admc, folder: Path) -> None:
    (folder / "linked").mkdir()
    write(folder / "linked", SHOP, "good.adm")
    (folder / "linked" / "good.test.adm").symlink_to("../good/good.test.adm")
    for command in ("test", "check"):
        refused = admc(command, "linked/good.test.adm")
        assert refused.code == Exit.INPUT
        assert "`linked/good.test.adm` is a link out" in refused.err + refused.out
        assert admc(command, "linked/good.test.adm", "--include", "good").code == Exit.DONE


def test_fmt_of_a_folder_formats_tests_too(admc: Admc, folder: Path) -> None:
    write(folder / "good", "test  few=adms<=4 // few\n", "good.test.adm")
    assert admc("fmt", "good").code == Exit.DONE
    assert (folder / "good" / "good.test.adm").read_text() == "test few = adms <= 4  // few\n"


def test_a_wrong_command_line_is_junit_too(admc: Admc) -> None:
    run = admc("test", "--formt", "junit", "good/good.adm", "--format", "junit")
    assert run.code == Exit.INPUT
    assert ElementTree.fromstring(run.out).get("errors") == "1"  # noqa: S314 - our own document


def test_hostile_text_stays_text() -> None:
    hostile = "<b>&\"'\x00\x1b[2J\u202e]]>\ud800--"
    source = SourceText("a.test.adm", f"test {hostile}\n")
    tested = ProgramTest(hostile, Span(source, 0, 4), NumberExpectation("adms", "<=", 1))
    run = RunResults(
        (FileResults(f"{hostile}/a.test.adm", hostile, hostile, ((tested, Failed(hostile)),), (), Exit.GATE),), ()
    )
    document = tests_junit.render(run)
    document.encode("utf-8")
    root = ElementTree.fromstring(document)  # noqa: S314 - our own document
    (case,) = root.iter("testcase")
    (failure,) = case
    assert {each.tag for each in root.iter()} == {"testsuites", "testsuite", "testcase", "failure"}
    assert case.get("name") == "<b>&\"'\\x00\\x1b[2J\\u202e]]>\\ud800--"
    assert failure.get("message") == case.get("name")
    assert all(character == "\n" or character.isprintable() for character in document + tests_text.render(run))


def test_the_tests_of_the_examples_pass(admc: Admc) -> None:
    run = admc("test", ROOT / "examples", "--format", "json")
    assert run.code == Exit.DONE, run.out
    programs = json.loads(run.out)["programs"]
    assert {program["app"]: len(program["tests"]) for program in programs} == {"hotel_reservation": 12, "sock_shop": 9}
    assert admc("fmt", "--check", ROOT / "examples").code == Exit.DONE


def test_the_example_of_the_page_holds(admc: Admc, folder: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    write(folder, page.partition("```adm\n")[2].partition("```")[0], "hotel.test.adm")
    write(folder, (ROOT / "examples" / "hotel_reservation" / "policies.adm").read_text(encoding="utf-8"), "hotel.adm")
    run = admc("test", "hotel.adm")
    assert run.code == Exit.DONE, run.out
    assert "4 tests, all passed" in run.out
    assert admc("fmt", "--check", "hotel.test.adm").code == Exit.DONE


def test_a_program_is_compiled_now(admc: Admc, folder: Path) -> None:
    """An old plan beside the program changes nothing."""
    assert admc("compile", "good/good.adm").code == Exit.DONE
    plan = folder / "good" / "good.plan.json"
    plan.write_text("{}")
    assert admc("test", "good/good.adm").code == Exit.DONE
    assert plan.read_text() == "{}"


def test_the_plan_beside_the_program_is_judged(admc: Admc, folder: Path) -> None:
    """Either service may host the ADM. The server serves the committed plan, so the tests are about its choice."""
    text = "app pair\nservice web, api { http 80 }\ncall web -> api\n"
    text += 'policy mark = set_request_header(name: "x-a", value: "b") on web -> api\n'
    write(folder, "test at_api = adm at api\ntest at_web = adm at web\n", "pair.test.adm")
    results = {}
    for service, side in (("api", "ingress"), ("web", "egress")):
        write(folder, f"{text}pin mark at {side}\n", "pair.adm")
        assert admc("compile", "pair.adm", "-o", "before.json").code == Exit.DONE
        write(folder, text, "pair.adm")
        assert admc("compile", "pair.adm", "--previous", "before.json").code == Exit.DONE
        run = admc("test", "pair.adm", "--format", "json")
        assert run.code == Exit.GATE
        (program,) = json.loads(run.out)["programs"]
        results[service] = [each["name"] for each in program["tests"] if each["result"] == "passed"]
    assert results == {"api": ["at_api"], "web": ["at_web"]}


def test_a_plan_beside_the_program_that_is_no_file_is_not_waited_for(admc: Admc, folder: Path) -> None:
    os.mkfifo(folder / "good/good.plan.json")
    done = admc("test", "good/good.adm")
    assert done.code == Exit.DONE
    assert "it is not a regular file" in done.err


def test_a_stale_plan_beside_the_program_is_a_warning(admc: Admc, folder: Path) -> None:
    assert admc("compile", "good/good.adm").code == Exit.DONE
    assert admc("test", "good/good.adm").err == ""
    write(folder / "good", SHOP + "// another text\n", "good.adm")
    run = admc("test", "good/good.adm")
    assert run.code == Exit.DONE
    assert "warning[ADM852]" in run.err
    assert "admc compile --check" in run.err
    (folder / "good/good.plan.json").write_text("{", "utf-8")
    assert "warning[ADM804]" in admc("test", "good/good.adm").err


@pytest.mark.parametrize("effort", ["0", "-1", "inf", "nan"])
def test_an_effort_is_above_zero(admc: Admc, effort: str) -> None:
    run = admc("test", "good/good.adm", "--effort", effort)
    assert run.code == Exit.INPUT
    assert "`--effort` must be a number above 0" in run.err
