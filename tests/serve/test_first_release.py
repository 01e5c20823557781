"""The state folder of the first release: read at rest, refused in the middle of a transition, and never misread.

The folders in `first_release/` were written by that release.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from admc.exits import CommandError, Exit
from admc.serve.files.state_dir import open_state_dir
from admc.serve.storage.manifest import SCHEMA_VERSION
from tests.serve.server_process import served
from tests.serve.test_server import client
from xds_server.resources.types import EXTENSION, LISTENER

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDERS = Path(__file__).parent / "first_release"
PROGRAM = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy tier = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin tier at ingress
"""
OPTIONS = ("policies.adm", "--mode", "explicit", "--state", "state")
PLAIN = "ingress/8081/tier:set_request_header"
"""The name of the filter in the first release."""


@pytest.fixture
def rest(tmp_path: Path) -> Path:
    return _copied("rest", tmp_path)


@pytest.fixture
def middle(tmp_path: Path) -> Path:
    return _copied("middle", tmp_path)


def _copied(name: str, tmp_path: Path) -> Path:
    (tmp_path / "policies.adm").write_text(PROGRAM)
    return Path(shutil.copytree(FOLDERS / name, tmp_path / "state"))


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_a_folder_at_rest_is_read(rest: Path) -> None:
    with closing(open_state_dir(rest)) as state_dir:
        found = state_dir.load()
    assert found is not None
    assert found.position is None
    assert found.first is not None
    assert found.first.inputs == {"policies.adm": PROGRAM.encode()}
    assert found.problems == ()
    assert PLAIN in found.groups["cart"].of_type(EXTENSION).resources


@pytest.mark.long
def test_a_server_says_that_a_plan_at_rest_has_an_older_form_and_goes_on_from_its_program(rest: Path) -> None:
    with served(rest.parent, *OPTIONS) as server:
        finding = server.until_event("finding")
        assert finding["code"] == "ADM854"
        assert "it has schema version 1, and this admc reads 4" in finding["text"]
        server.until(lambda: server.get("/readyz")[0] == 200)
        with client(server.xds, "cart") as cart:
            listeners = b"".join(each.value for each in cart.ask(LISTENER))
            assert b"ingress/8081" in listeners
        server.until(lambda: json.loads((rest / "state.json").read_text())["schema_version"] == SCHEMA_VERSION)
    with closing(open_state_dir(rest)) as state_dir:
        found = state_dir.load()
    assert found is not None
    assert found.position is not None
    assert found.position.rollout.now.goal is None


@pytest.mark.long
def test_a_folder_in_the_middle_of_a_transition_is_refused_and_stays_as_it_is(middle: Path) -> None:
    before = _contents(middle)
    command = (sys.executable, "-m", "admc", "serve", *OPTIONS, "--plaintext")
    ports = ("--xds", "127.0.0.1:0", "--ops", "127.0.0.1:0")
    ended = subprocess.run((*command, *ports), cwd=middle.parent, capture_output=True, timeout=60, check=False)
    said = ended.stderr.decode()
    assert ended.returncode == Exit.INPUT
    assert "ADM854" in said
    assert "is of an earlier release, which was in the middle of a rollout" in said
    assert "let the earlier release finish, or remove the folder once every proxy has" in said
    assert "Traceback" not in said
    assert _contents(middle) == before


def _damage(name: str) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        document: dict[str, Any] = json.loads((folder / "state.json").read_text())
        plan = folder / "objects" / document["state"]["plan"]
        if name == "cut short":
            plan.write_bytes(plan.read_bytes()[:100])
        elif name == "another plan":
            plan.write_bytes(plan.read_bytes().replace(b"ingress", b"egress"))
        elif name == "no plan":
            plan.unlink()
        elif name == "a path":
            document["state"]["plan"] = "../state.json"
        elif name == "no inputs":
            document["state"]["inputs"] = {}
        elif name == "a list":
            document["state"] = []
        elif name == "more":
            document["rollout"] = None
        (folder / "state.json").write_text(json.dumps(document))

    return damage


@pytest.mark.parametrize("name", ["cut short", "another plan", "no plan", "a path", "no inputs", "a list", "more"])
def test_a_damaged_folder_is_not_used(name: str, rest: Path) -> None:
    _damage(name)(rest)
    with closing(open_state_dir(rest)) as state_dir:
        with pytest.raises(CommandError, match="cannot be used"):
            state_dir.load()
        assert state_dir.may_begin_anew


def test_a_damaged_snapshot_is_left_out(rest: Path) -> None:
    document = json.loads((rest / "state.json").read_text())
    (rest / "objects" / document["groups"]["cart"]["object"]).write_bytes(b"\x0a\xff")
    with closing(open_state_dir(rest)) as state_dir:
        found = state_dir.load()
    assert found is not None
    assert found.groups == {}
    assert found.problems == ("`cart`: a part of it is not what admc stored",)
