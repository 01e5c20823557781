"""Programs that cannot be served: a condition says what and where, the last good plan stays, and what is mended is
served. One server has all of them, one after the other."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.__main__ import main
from admc.base.exits import Exit
from emitters.interception.pod import PodCaptures
from tests.cluster.serve.installation import PROGRAM, Installation, installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.api_server import ApiServer
    from tests.serve.server_process import Served

GOOD = PROGRAM.replace("SIDE", "egress")
OTHER = PROGRAM.replace("SIDE", "ingress")


class Running(NamedTuple):
    shop: Installation
    server: Served
    state: str
    """Of the plan that is in force from the beginning."""

    def stays(self) -> None:
        """The last good plan is served, and the status says so."""
        assert self.server.status()["server"]["state"] == self.state
        assert self.shop.condition("Programmed") == ("False", "NotAccepted", "an earlier plan is in force")
        assert self.shop.status()["plan"]["sha256"]

    def mended(self) -> None:
        """With what it was before, it is as it was before."""
        self.shop.program(GOOD)
        self.shop.said("Accepted", "Accepted")
        self.server.until(lambda: self.server.status()["server"]["state"] == self.state)
        self.shop.until(lambda: self.shop.condition("Programmed")[1] in ("NotInSync", "RollingOut"))


@pytest.fixture(scope="module")
def running(cluster_api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    shop = installation(cluster_api, tmp_path_factory.mktemp("shop"))
    shop.service("web", 8080)
    shop.service("cart", 8081)
    shop.pod("web-1", "web", "10.78.0.1", PodCaptures(frozenset(), frozenset({8081})))
    shop.pod("cart-1", "cart", "10.78.0.2")
    with shop.server() as server:
        shop.program(GOOD)
        shop.said("Programmed", "NotInSync")
        yield Running(shop, server, server.status()["server"]["state"])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def good(shop: Installation) -> bytes:
    return GOOD.replace("NAMESPACE", shop.namespace).encode()


TEXTS = {
    "a name": (
        GOOD.replace("on web", "on wbe"),
        "NotCompiled",
        "policies.adm:5:65: ADM101: there is no service or external named `wbe`",
        "did you mean `web`?",
    ),
    "no placement": (
        f'{GOOD}@ingress\npolicy q = set_request_header(name: "x-q", value: "1") on web -> cart\npin q at egress\n',
        "NoPlacement",
        "policies.adm:",
        "ADM6",
    ),
    "a file that is not there": (f'{GOOD}use "own.adm"\n', "NotCompiled", "policies.adm:7:5: ADM", "own.adm"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_program_that_does_not_compile(running: Running, name: str) -> None:
    text, reason, *parts = TEXTS[name]
    running.shop.program(text)
    said = running.shop.said("Accepted", reason)
    assert said.startswith("the last good plan stays in force\n")
    assert all(part in said for part in parts), said
    running.stays()


SPECS = {
    "a path that leads out of the folder": (
        {"files": {"policies.adm": GOOD, "../x.adm": ""}},
        "`spec.files` must not have `../x.adm`, which is not a path inside the program's folder",
    ),
    "a service that the program lacks": (
        {"files": {"policies.adm": GOOD}, "services": {"crat": "cart"}},
        "`spec.services` names `crat`, no service of the program; did you mean `cart`?",
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_that_the_definition_admits_and_that_is_wrong(running: Running, name: str) -> None:
    spec, message = SPECS[name]
    running.shop.program_of(spec)
    assert f"ADM930: {message}" in running.shop.said("Accepted", "Malformed")
    running.stays()


def bomb(megabytes: int) -> bytes:
    packing = zlib.compressobj(9, wbits=31)
    piece = bytes(1_000_000)
    return b"".join([packing.compress(piece) for _ in range(megabytes)]) + packing.flush()


def most_memory(server: Served) -> int:
    """The highest memory of the server so far, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def test_files_in_config_maps_that_are_not_as_the_program_names_them(running: Running) -> None:
    shop = running.shop
    right = good(shop).replace(b"gold", b"silver")
    named = {"configMaps": [{"name": "files", "sha256": sha256(right)}]}
    shop.program_of(named)
    where = f"`files` in the namespace `{shop.system}`"
    assert f"ADM932: there is no ConfigMap {where}; apply it there" in shop.said("Accepted", "ConfigMapMissing")
    running.stays()
    shop.config_map("files", {"policies.adm": GOOD})
    said = shop.said("Accepted", "ContentMismatch", f"and not `{sha256(right)[:12]}...`")
    assert "ADM931: `policies.adm` of the ConfigMap `files` has the digest `" in said
    shop.config_map("files", policies_adm_gz=right)
    said = shop.said("Accepted", "ContentMismatch", "cannot be unpacked")
    assert "`policies.adm.gz` of the ConfigMap `files` cannot be unpacked (it is not packed with gzip" in said
    before = most_memory(running.server)
    shop.config_map("files", policies_adm_gz=bomb(500))
    assert "more than 64 MB, at `policies.adm.gz` of the ConfigMap `files`" in shop.said("Accepted", "TooLarge")
    assert most_memory(running.server) - before < 250_000_000
    running.stays()
    shop.config_map("files", policies_adm_gz=gzip.compress(right))
    shop.said("Accepted", "Accepted")
    shop.said("Programmed", "RollingOut")
    assert running.server.status()["server"]["state"] != running.state
    running.mended()


def test_a_reviewed_plan_that_the_facts_contradict_is_refused_and_not_mended(
    running: Running, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shop = running.shop
    program = tmp_path / "policies.adm"
    program.write_bytes(good(shop))
    assert main(["compile", str(program), "-o", str(tmp_path / "policies.plan.json")]) == Exit.DONE
    capfd.readouterr()
    plan = (tmp_path / "policies.plan.json").read_text()
    shop.program_of({"files": {"policies.adm": program.read_text(), "policies.plan.json": plan}})
    said = shop.said("Accepted", "PlanRefused")
    assert "ADM852" in said
    assert "the facts of the cluster" in said
    running.stays()
    edited = json.dumps({**json.loads(plan), "adms": []})
    shop.program_of({"files": {"policies.adm": program.read_text(), "policies.plan.json": edited}})
    shop.said("Accepted", "PlanRefused")
    running.stays()


def test_a_finding_that_stays_is_one_event_and_what_is_mended_is_served(running: Running) -> None:
    shop = running.shop
    shop.program("half of")
    shop.said("Accepted", "NotCompiled")
    before = events(shop)
    time.sleep(3)
    assert events(shop) == before
    refused = running.server.events("program_refused")
    assert refused[-1]["program"] == shop.name
    assert "policies.adm:1:1: ADM008: a statement does not start with `half`" in refused[-1]["why"][0]
    assert all(one["why"] != other["why"] for one, other in itertools.pairwise(refused)), "each is said once"
    running.mended()


def events(shop: Installation) -> list[str]:
    listed = shop.api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return sorted(each["metadata"]["name"] for each in listed if each["regarding"]["name"] == shop.name)
