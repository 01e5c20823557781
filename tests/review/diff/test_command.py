"""`admc diff` as a command: formats, files, gates and exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import Admc
from tests.review.diff.harness import MAIN, GitRepository, write

SHOP = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 90, per: 1s) on * -> cart
"""
LOOSER = SHOP.replace("90", "900")
GATES = "policies.gates.adm"
BROKEN = "app shop\nservice web { http 80 }\npolicy p = allow(callers: [nowhere]) on * -> web\n"
INFEASIBLE = """app shop
service a, b { http 80 }
service c { http 80  no adm }
call a, c -> b
@egress
policy quota = rate_limit(requests: 5, per: 1s) on {a, c} -> b
"""


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    """BASE has SHOP with a gate, HEAD is LOOSER without it."""
    found = GitRepository(tmp_path / "repository")
    found.commit({MAIN: SHOP, GATES: "gate safe = fail when weaker\ngate few = warn when adms > +0\n"})
    write(found.folder, {MAIN: LOOSER})
    (found.folder / GATES).unlink()
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    return found


def test_a_gate_of_base_fails_whatever_head_makes_of_it(repository: GitRepository, admc: Admc) -> None:
    done = admc("diff", "main", MAIN)
    assert done.code == 4
    assert "1 thing gets weaker" in done.out
    done = admc("diff", "main", MAIN, "--format", "json", "--detailed-exitcode")
    assert (done.code, done.err) == (4, "")
    gates = json.loads(done.out)["gates"]
    assert {gate["name"]: gate["verdict"] for gate in gates} == {"safe": "breached", "few": "passed"}


def test_an_accepted_breach_is_shown_and_does_not_fail(repository: GitRepository, admc: Admc) -> None:
    done = admc("diff", "main", MAIN, "--accept", "safe=planned = twice", "--format", "json")
    assert done.code == 0
    gates = {gate["name"]: gate for gate in json.loads(done.out)["gates"]}
    assert (gates["safe"]["verdict"], gates["safe"]["reason"]) == ("accepted", "planned = twice")
    assert admc("diff", "main", MAIN, "--accept", "safe=planned", "--detailed-exitcode").code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--accept", "safe"), "ADM801"),
        (("--accept", "=x"), "ADM801"),
        (("--accept", "safe=a", "--accept", "safe=b"), "ADM801"),
        (("--accept", "saef=a"), "ADM875"),
        (("--effort", "0"), "ADM801"),
        (("--effort", "nan"), "ADM801"),
    ],
)
def test_wrong_options(repository: GitRepository, admc: Admc, arguments: tuple[str, ...], code: str) -> None:
    done = admc("diff", "main", MAIN, *arguments, "--format", "json")
    assert done.code == 1
    assert json.loads(done.out)["diagnostics"][0]["code"] == code


def test_changes_have_an_exit_code_of_their_own(repository: GitRepository, admc: Admc) -> None:
    write(repository.folder, {MAIN: SHOP + "// a comment\n"})
    assert admc("diff", "main", MAIN, "--detailed-exitcode").code == 0
    write(repository.folder, {MAIN: SHOP.replace("service web, cart", "service web, cart, other")})
    assert admc("diff", "main", MAIN, "--detailed-exitcode").code == 2
    assert admc("diff", "main", MAIN).code == 0


def test_head_that_has_errors(repository: GitRepository, admc: Admc) -> None:
    write(repository.folder, {MAIN: BROKEN})
    done = admc("diff", "main", MAIN)
    assert (done.code, done.out) == (1, "")
    assert "ADM101" in done.err
    assert f"{MAIN}:3" in done.err
    write(repository.folder, {MAIN: INFEASIBLE})
    done = admc("diff", "main", MAIN, "--detailed-exitcode")
    assert done.code == 3
    assert "ADM605" in done.err


def test_a_finding_in_a_revision_names_it(repository: GitRepository, admc: Admc) -> None:
    repository.commit({f"apps/{MAIN}": BROKEN, MAIN: SHOP})
    done = admc("diff", "main", f"main:apps/{MAIN}")
    assert done.code == 1
    assert f"main:apps/{MAIN}:3" in done.err


def test_a_broken_base_is_not_judged(repository: GitRepository, admc: Admc) -> None:
    """It never looks like a change by which nothing gets weaker."""
    repository.git("checkout", "--quiet", "-b", "broken")
    repository.commit({MAIN: BROKEN, GATES: "gate safe = fail when weaker\n"})
    write(repository.folder, {MAIN: SHOP})
    for head in (MAIN, "main:policies.adm"):
        done = admc("diff", "broken", head, "--format", "json")
        found = json.loads(done.out)
        assert (done.code, found["base"]["how"]) == (0, "broken")
        assert "nowhere" in found["base"]["why"]
        assert {gate["verdict"] for gate in found["gates"]} == {"not judged"}
        assert any("what gets weaker is not known" in note for note in found["notes"])
    done = admc("diff", "broken", MAIN, "--detailed-exitcode")
    assert done.code == 2
    assert "nothing gets weaker" not in done.out
    assert "weaker: nothing" not in done.out


def test_gates_with_errors_in_base_are_not_judged(repository: GitRepository, admc: Admc) -> None:
    """Otherwise the change that mends them would fail by them."""
    repository.commit({MAIN: SHOP, GATES: "gate safe = fail when nonsense\n"})
    write(repository.folder, {MAIN: LOOSER, GATES: "gate safe = fail when weaker\n"})
    done = admc("diff", "main", MAIN, "--format", "json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["gates"] == []
    assert "no gate is judged" in found["notes"][0]


def test_a_file_is_written_whole(repository: GitRepository, admc: Admc, tmp_path: Path) -> None:
    target = tmp_path / "DIFF.json"
    printed = admc("diff", "main", MAIN, "--format", "json").out
    assert admc("diff", "main", MAIN, "--format", "json", "-o", target).out == f"wrote `{target}`\n"
    assert target.read_text() == printed
    assert "is up to date" in admc("diff", "main", MAIN, "--format", "json", "-o", target).out
    assert admc("diff", "main", MAIN, "-o", tmp_path / "no" / "folder").code == 1


@pytest.mark.parametrize("name", [MAIN, "policies.plan.json", "part.adm"])
def test_what_was_read_is_never_overwritten(repository: GitRepository, admc: Admc, name: str) -> None:
    write(repository.folder, {MAIN: f'{LOOSER}use "part.adm"\n', "part.adm": "external internet\n"})
    assert admc("compile", MAIN).code == 0
    before = (repository.folder / name).read_bytes()
    done = admc("diff", "main", MAIN, "-o", name)
    assert done.code == 1
    assert "ADM803" in done.err
    assert (repository.folder / name).read_bytes() == before


def test_causes_can_be_left_out(repository: GitRepository, admc: Admc) -> None:
    tie = "app tie\nservice a, b { http 80 }\ncall a -> b\npolicy log = access_log(format: json) on a -> b\n"
    pinned = f"{tie}pin log at ingress\n"
    repository.commit({MAIN: pinned})
    write(repository.folder, {MAIN: f"{tie}pin log at egress\n"})
    (with_cause,) = json.loads(admc("diff", "main", MAIN, "--format", "json").out)["moves"]
    (without,) = json.loads(admc("diff", "main", MAIN, "--format", "json", "--no-causes").out)["moves"]
    assert with_cause["cause"] is not None
    assert without["cause"] is None
