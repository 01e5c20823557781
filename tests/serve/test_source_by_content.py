"""A program by content, and what a cluster shows of its services: no disk, and one more input of the plan."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from admc.compile.facts import FACTS
from admc.serve.compiling.source import Source, read, restored
from emitters.envoy import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from admc.serve.compiling.source import ReadResult, State

PROGRAM = """\
app shop
use "more.adm"
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
"""
MORE = 'policy tier = set_request_header(name: "x-tier", value: "gold") on web -> cart\n'
FILES = {"policies.adm": PROGRAM.encode(), "more.adm": MORE.encode()}
MAIN, PLAN = Path("policies.adm"), Path("policies.plan.json")


def facts(**services: Mapping[str, Any]) -> bytes:
    return json.dumps({"schema_version": 1, "services": services}).encode()


NONE, MIRROR, ROOT = facts(), facts(web={"no_adm": "mirror pod"}), facts(cart={"untrusted": "container `x` is root"})


def found(
    files: Mapping[str, bytes] = FILES, path: Path = MAIN, given: bytes | None = None, **other: Any
) -> ReadResult:
    return read(Source(path, Mode.REDIRECT, files=files, facts=given, **other), (), with_recipe=True)


def told(state: State) -> dict[str, tuple[bool, bool, bool]]:
    """What facts change."""
    return {name: (it.hosts_adm, it.trusted, it.host_network) for name, it in state.program.services.items()}


def places(result: ReadResult) -> list[str]:
    assert result.state is not None, result.findings
    return [decision.place for decision in result.state.placement.decisions]


def text(result: ReadResult) -> str:
    assert result.state is None
    (item,) = result.findings
    return f"{item.code} {item.message}: {item.cause} ({item.hint})"


@pytest.fixture
def touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that are looked at in a folder that has other files of the same names."""
    for name in ("policies.adm", "more.adm", "missing.adm", "policies.plan.json", "policy.adm"):
        (tmp_path / name).write_text("app another\n")
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    on = True
    folders = (str(tmp_path), str(Path.cwd()))

    def note(path: object) -> None:
        if on and isinstance(path, str | os.PathLike | bytes):
            name = os.fsdecode(path)
            if not os.path.isabs(name) or name.startswith(folders):  # noqa: PTH117 - `Path` would look at the disk
                seen.append(name)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            note(arguments[0] if arguments else ".")

    def noting(before: Callable[..., Any]) -> Callable[..., Any]:
        def look(path: object, *rest: Any, **named: Any) -> Any:
            note(path)
            return before(path, *rest, **named)

        return look

    sys.addaudithook(hook)
    for name in ("stat", "lstat", "readlink"):
        monkeypatch.setattr(os, name, noting(getattr(os, name)))
    yield seen
    on = False


@pytest.mark.parametrize(
    ("files", "path"),
    [
        (FILES, MAIN),
        ({"more.adm": MORE.encode()}, MAIN),
        ({"policies.adm": PROGRAM.encode()}, MAIN),
        ({"policies.adm": PROGRAM.encode() + b'use "../more.adm"\n', "more.adm": b""}, MAIN),
        (FILES, PLAN),
        ({**FILES, "policies.plan.json": b"{}"}, PLAN),
    ],
)
def test_no_file_of_a_program_by_content_is_looked_for_on_disk(
    touched: list[str], files: Mapping[str, bytes], path: Path
) -> None:
    result = found(files, path, MIRROR, include=(Path(),))
    assert (result.state is not None) == (files is FILES and path is MAIN)
    assert result.files == {}
    assert touched == []


def test_the_disk_is_noticed_where_it_is_used(touched: list[str]) -> None:
    read(Source(MAIN, Mode.REDIRECT), ())
    assert touched


def test_the_same_program_has_the_same_state_by_content_and_on_disk(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    one, other = found(), read(Source(tmp_path / MAIN, Mode.REDIRECT), (), with_recipe=True)
    assert one.state is not None
    assert other.state is not None
    assert one.state.version == other.state.version
    assert one.recipe == other.recipe
    assert one.state.source == Source(MAIN, Mode.REDIRECT)  # a state is sent between processes: without the files


def test_a_missing_file_is_the_usual_finding() -> None:
    assert text(found({"policies.adm": PROGRAM.encode()})).startswith("ADM501 cannot read `more.adm`: there is no such")
    missing = text(found({"policy.adm": b"app shop\n"}))
    assert missing.startswith("ADM501 cannot read `policies.adm`: there is no such file")
    assert missing.endswith("(did you mean `policy.adm`?)")
    assert text(found({}, PLAN)).startswith("ADM802 cannot read the plan `policies.plan.json`: there is no such file")


def test_facts_are_an_input_of_the_state_and_of_its_recipe() -> None:
    without, none, mirror = found(), found(given=NONE), found(given=MIRROR)
    assert len({each.state and each.state.version for each in (without, none, mirror)}) == 3
    assert places(without) == places(none)
    assert mirror.state is not None
    assert [item.path for item in mirror.state.program.inputs] == ["policies.adm", FACTS, "more.adm"]
    assert not mirror.state.program.services["web"].hosts_adm
    assert mirror.recipe is not None
    assert mirror.recipe.inputs == {**FILES, FACTS: MIRROR}


@pytest.mark.parametrize("given", [None, NONE, MIRROR, ROOT])
def test_a_recipe_gives_the_same_state_again(given: bytes | None) -> None:
    first = found(given=given)
    assert first.state is not None
    assert first.recipe is not None
    for source in (None, Source(MAIN, Mode.REDIRECT, files=FILES, facts=b"others by now")):
        again = restored(source, first.recipe)
        assert again.version == first.state.version
        assert told(again) == told(first.state)


def test_a_file_of_the_program_with_the_name_of_the_facts_is_no_fact() -> None:
    own = {"services": [{"name": "other", "ports": [{"port": 8082, "protocol": "http"}]}]}
    topology = PROGRAM.replace("app shop", f'app shop\ntopology "{FACTS}"')
    files = {**FILES, "policies.adm": topology.encode(), FACTS: json.dumps(own).encode()}
    result = found(files)
    assert result.state is not None
    assert result.recipe is not None
    assert restored(None, result.recipe).version == result.state.version
    refused = found(files, given=NONE)
    assert [item.code for item in refused.findings] == ["ADM945"]


# ---- a reviewed plan ----


def planned(given: bytes | None) -> dict[str, bytes]:
    made = found(given=given)
    assert made.recipe is not None
    return {**FILES, "policies.plan.json": made.recipe.plan}


@pytest.mark.parametrize("given", [None, NONE, MIRROR, ROOT])
def test_a_plan_that_was_made_with_these_facts_is_served(given: bytes | None) -> None:
    result = found(planned(given), PLAN, given)
    assert places(result) == places(found(given=given))
    assert result.recipe is not None
    assert result.state is not None
    assert restored(None, result.recipe).version == result.state.version


@pytest.mark.parametrize(
    ("made", "now", "said"),
    [
        (None, MIRROR, "it was made without the facts of the cluster: `web` hosts no ADM (mirror pod)"),
        (None, NONE, "it was made without the facts of the cluster"),
        (NONE, MIRROR, "the facts of the cluster have changed since: `web` hosts no ADM (mirror pod)"),
        (MIRROR, NONE, "the facts of the cluster have changed since"),
        (
            NONE,
            facts(cart={"untrusted": "container `x` is root", "host_network": True}),
            "have changed since: `cart` has a pod on the host's network, `cart` is untrusted (container `x` is root)",
        ),
    ],
)
def test_a_plan_that_was_made_with_other_facts_is_refused(made: bytes | None, now: bytes, said: str) -> None:
    refused = text(found(planned(made), PLAN, now))
    assert refused.startswith("ADM852 the plan `policies.plan.json` was not made from the files beside it")
    assert said in refused


def test_a_plan_that_contradicts_the_facts_it_names_is_refused() -> None:
    """An edited plan names the facts by digest, and puts a policy where they allow none."""
    files = planned(NONE)
    digest = {item["path"]: item["sha256"] for item in json.loads(planned(MIRROR)["policies.plan.json"])["inputs"]}
    made = found(given=NONE)
    assert made.state is not None
    (host,) = {adm.service for adm in made.state.placement.adms}
    against = facts(**{host: {"no_adm": "mirror pod"}})
    digest = {item["path"]: item["sha256"] for item in json.loads(planned(against)["policies.plan.json"])["inputs"]}
    document = json.loads(files["policies.plan.json"])
    for item in document["inputs"]:
        item["sha256"] = digest[item["path"]]
    refused = text(found({**files, "policies.plan.json": json.dumps(document).encode()}, PLAN, against))
    assert refused.startswith("ADM853 the plan `policies.plan.json` is no correct placement")
    assert f"`{host}`" in refused


def test_a_plan_with_facts_is_not_served_from_files_that_lack_them() -> None:
    assert f"it was made with facts of a cluster (`{FACTS}`)" in text(found(planned(NONE), PLAN))
