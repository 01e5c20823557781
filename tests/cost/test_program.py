"""A program with a profile: the commands agree on it, and a profile with a mistake is a mistake of the program."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from admc.cost.profiles.source import built_in, profile_of
from admc.serve.compiling.source import Source, read, restored
from dsl import load
from emitters.envoy import Mode
from tests.cli.command import Admc
from tests.cost.documents import changed

SHOP = """app shop

service web, api { http 8080 }
call web -> api { rate 20/s  size 1KB }

policy count = request_count() on web -> api
"""


def write(folder: Path, line: str, text: str | None = None) -> Path:
    path = folder / "policies.adm"
    path.write_text(SHOP + line)
    if text is not None:
        (folder / "node.json").write_text(text)
    return path


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    text = changed(lambda _: None)
    program = load(write(tmp_path, 'profile "node.json"\n', text))
    found = profile_of(program)
    assert found is not None
    assert found.profile.name == "node"
    assert found.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert (program.inputs[1].path, program.inputs[1].sha256) == ("node.json", found.sha256)


def test_a_built_in_profile(tmp_path: Path) -> None:
    found = profile_of(load(write(tmp_path, "profile meshinsight\n")))
    assert found == built_in("meshinsight")


def test_no_profile(tmp_path: Path) -> None:
    assert profile_of(load(write(tmp_path, ""))) is None


@pytest.mark.parametrize("command", [("check",), ("compile", "--json"), ("explain",), ("graph",)])
def test_every_command_refuses_a_profile_with_a_mistake(admc: Admc, tmp_path: Path, command: tuple[str, ...]) -> None:
    text = changed(lambda document: document["units"].update(latency="ms"))
    run = admc(command[0], write(tmp_path, 'profile "node.json"\n', text), *command[1:])
    assert run.code == 1
    assert "ADM863" in run.out + run.err
    assert "node.json" in run.out + run.err


def test_an_unknown_profile_gets_the_known_one(admc: Admc, tmp_path: Path) -> None:
    run = admc("check", write(tmp_path, "profile meshinsigth\n"))
    assert run.code == 1
    assert "error[ADM866]: there is no built-in profile `meshinsigth`" in run.out
    assert "policies.adm:7:9" in run.out
    assert "did you mean `meshinsight`?" in run.out


def test_a_plan_has_the_profile_as_an_input(admc: Admc, tmp_path: Path) -> None:
    plain = json.loads(admc("compile", write(tmp_path, ""), "--json").out)
    path = write(tmp_path, 'profile "node.json"\n', changed(lambda _: None))
    priced = json.loads(admc("compile", path, "--json").out)
    assert [item["path"] for item in priced["inputs"]] == ["policies.adm", "node.json"]
    # The only placement of this program: the profile adds figures to the plan, and changes no decision.
    assert priced["decisions"] == plain["decisions"]


def test_the_place_in_the_program_means_nothing(admc: Admc, tmp_path: Path) -> None:
    one = json.loads(admc("compile", write(tmp_path, "profile meshinsight\n"), "--json").out)
    path = tmp_path / "policies.adm"
    path.write_text(SHOP.rstrip() + "  // quota\n\n" + "profile meshinsight\n")
    other = json.loads(admc("compile", path, "--json").out)
    for plan in (one, other):
        del plan["inputs"]
    assert one == other


def test_a_server_reads_the_profile_and_keeps_it_in_its_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, 'profile "node.json"\n', changed(lambda _: None))
    source = Source(path, Mode.EXPLICIT)
    result = read(source, (), with_recipe=True)
    assert result.state is not None
    assert result.recipe is not None
    assert tmp_path / "node.json" in result.files
    assert [item.path for item in result.state.program.inputs] == ["policies.adm", "node.json"]
    before = result.state.version
    assert restored(source, result.recipe).version == before
    (tmp_path / "node.json").write_text(changed(lambda document: document.update(name="other")))
    changed_state = read(source, ()).state
    assert changed_state is not None
    assert changed_state.version != before


def test_a_server_refuses_a_profile_with_a_mistake(tmp_path: Path) -> None:
    path = write(tmp_path, 'profile "node.json"\n', changed(lambda document: document.update(schema_version=2)))
    result = read(Source(path, Mode.EXPLICIT), ())
    assert result.state is None
    assert [item.code for item in result.findings] == ["ADM865"]


def test_a_reviewed_plan_with_a_profile_is_served(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path, 'profile "node.json"\n', changed(lambda _: None))
    assert admc("compile", path).code == 0
    plan = Source(tmp_path / "policies.plan.json", Mode.EXPLICIT)
    assert read(plan, ()).state is not None
    (tmp_path / "node.json").write_text(changed(lambda document: document.update(name="other")))
    refused = read(plan, ())
    assert refused.state is None
    assert "node.json" in str(refused.findings[0])
