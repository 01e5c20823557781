"""`admc plan`, with a real API server: the plan as it was stored, and an error for each way in which there is none."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from admc.compile.facts import ServiceFacts, to_json
from admc.kubernetes.cluster.names import PROGRAMS
from admc.kubernetes.cluster.packing import packed
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.program.plan_objects import plan_objects
from tests.cli.command import Admc, Run

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
ROOT = Path(__file__).parents[3]
PLAN = (ROOT / "examples" / "hotel_reservation" / "policies.plan.json").read_bytes()


class Cluster:
    def __init__(self, server: ApiServer, admc: Admc) -> None:
        self.server, self._admc = server, admc

    def admc(self, name: str, *options: str | Path) -> Run:
        return self._admc("plan", name, "--kubeconfig", self.server.kubeconfig, *options)

    def program(self, name: str, **status: Any) -> Owner:
        body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Program", "metadata": {"name": name}}
        spec = {"controller": "main", "files": {"policies.adm": ""}}
        made = self.server.apply(f"{PROGRAMS}/{name}", {**body, "spec": spec})
        if status:
            self.server.apply(f"{PROGRAMS}/{name}/status", {**body, "status": status})
        return Owner(name, made["metadata"]["uid"])

    def store(self, name: str, plan: bytes = PLAN, facts: bytes | None = None) -> Any:
        """The plan in ConfigMaps, and in the status. Returns the last part."""
        objects = plan_objects(plan, self.program(name), "default", "main", facts)
        for part in objects.parts.values():
            self.server.apply(f"{MAPS}/{part['metadata']['name']}", part)
        self.server.apply(f"{MAPS}/{objects.directory['metadata']['name']}", objects.directory)
        self.program(name, plan=objects.reference._asdict())
        return part


@pytest.fixture
def cluster(programs_api: ApiServer, capfd: pytest.CaptureFixture[str]) -> Cluster:
    return Cluster(programs_api, Admc(capfd))


def test_the_plan_itself_a_file_and_a_summary(cluster: Cluster, tmp_path: Path) -> None:
    cluster.store("hotel")
    shown = cluster.admc("hotel", "--format", "json")
    assert (shown.code, shown.out.encode()) == (0, PLAN), shown.err
    target = tmp_path / "hotel.plan.json"
    summary = cluster.admc("hotel", "-o", target)
    assert summary.code == 0
    assert target.read_bytes() == PLAN
    assert summary.out.startswith("hotel_reservation: ")
    assert f"wrote `{target}`" in summary.out
    compiled = cluster._admc("compile", ROOT / "examples/hotel_reservation/policies.adm", "-o", tmp_path / "again.json")
    assert summary.out.splitlines()[:8] == compiled.out.splitlines()[:8], "the same summary as that of a compile"


def test_the_facts_that_the_plan_rests_on(cluster: Cluster, tmp_path: Path) -> None:
    """With them a compile gives the plan of the cluster, to be reviewed."""
    program, facts, given = tmp_path / "policies.adm", tmp_path / "facts.json", tmp_path / "given.json"
    text = "app shop\nservice web, db { http 80 }\ncall web -> db\npolicy p = allow(callers: [web]) on * -> db\n"
    program.write_text(text)
    given.write_bytes(to_json({"web": ServiceFacts(untrusted="container `app` has NET_ADMIN")}))
    made = tmp_path / "policies.plan.json"
    assert cluster._admc("compile", program, "--facts", given).code == 0
    cluster.store("observed", made.read_bytes(), given.read_bytes())
    made.unlink()
    shown = cluster.admc("observed", "-o", made, "--facts", facts)
    assert shown.code == 0, shown.err
    assert f"wrote `{facts}`" in shown.out
    assert facts.read_bytes() == given.read_bytes()
    assert cluster._admc("compile", program, "--facts", facts, "--check").code == 0
    cluster.store("unobserved")
    lacking = cluster.admc("unobserved", "--facts", tmp_path / "none.json")
    assert (lacking.code, (tmp_path / "none.json").exists()) == (1, False)
    assert "error[ADM938]: the facts of the cluster are not kept beside the plan" in lacking.err


def test_with_a_namespace_it_reads_no_program(cluster: Cluster) -> None:
    cluster.store("named")
    cluster.server.request("DELETE", f"{PROGRAMS}/named")
    assert cluster.admc("named").code == 1
    assert cluster.admc("named", "--namespace", "default", "--format", "json").out.encode() == PLAN
    assert "ADM938" in cluster.admc("named", "--namespace", "kube-system").err


def test_a_name_of_nothing(cluster: Cluster) -> None:
    cluster.program("shop-front")
    missing = cluster.admc("shop-frnt")
    assert missing.code == 1
    assert "error[ADM939]: there is no Program `shop-frnt`" in missing.err
    assert "did you mean `shop-front`?" in missing.err
    for name in ("Shop", "a/b", "a" * 64):
        assert "ADM801" in cluster.admc(name).err


def test_a_program_without_a_plan_says_why(cluster: Cluster) -> None:
    cluster.program("planless")
    assert "no server of its installation has compiled it" in cluster.admc("planless").err
    accepted = {"type": "Accepted", "status": "False", "reason": "NotCompiled", "message": "policies.adm:1:1: ADM101"}
    cluster.program("planless", conditions=[{**accepted, "lastTransitionTime": "2026-11-23T09:00:00Z"}])
    found = cluster.admc("planless", "--format", "json")
    assert found.code == 1
    assert "policies.adm:1:1: ADM101" in found.out
    cluster.program("planless", plan={"namespace": "../x", "name": "y", "sha256": ""})
    assert "has no plan yet" in cluster.admc("planless").err


@pytest.mark.parametrize("how", ["part", "missing", "bomb", "newer", "elsewhere", "no plan"])
def test_a_plan_that_is_not_whole_is_refused(cluster: Cluster, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.cli.plan.PAUSE_SECONDS", 0.01)
    name = f"broken-{how.replace(' ', '-')}"
    part = cluster.store(name, b"{}" if how == "no plan" else PLAN)
    index = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"admc-{name}-plan"}}
    path = f"{MAPS}/{part['metadata']['name']}"
    causes = {
        "part": "does not have the digest that its index names",
        "missing": "not found",
        "bomb": "it has more than 1,000 bytes when it is unpacked",
        "newer": "it was written by a newer admc",
        "elsewhere": "names parts of another plan",
        "no plan": "is not a plan that admc can read",
    }
    if how in ("part", "missing"):
        cluster.server.request("DELETE", path)
    if how == "part":
        cluster.server.apply(path, {**part, "binaryData": {"part": base64.b64encode(packed(b"{}")).decode()}})
    elif how in ("bomb", "newer", "elsewhere"):
        bomb = packed(bytes(50_000_000))
        cluster.server.request("DELETE", path)
        cluster.server.apply(path, {**part, "binaryData": {"part": base64.b64encode(bomb).decode()}})
        listed = {"name": part["metadata"]["name"], "sha256": hashlib.sha256(bomb).hexdigest()}
        content: dict[str, Any] = {"schema_version": 1, "sha256": "0" * 64, "size": 1000, "parts": [listed]}
        if how == "newer":
            content["schema_version"] = 2
        if how == "elsewhere":
            content["parts"] = [{**listed, "name": "other-0"}]
        text = json.dumps(content)
        cluster.server.apply(f"{MAPS}/admc-{name}-plan", {**index, "data": {"index.json": text}})
    found = cluster.admc(name, "--format", "json")
    assert found.code == 1
    assert ("ADM804" if how == "no plan" else "ADM938") in found.out
    assert causes[how] in found.out


def test_an_account_without_permission(cluster: Cluster, tmp_path: Path) -> None:
    cluster.store("secret")
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cluster.server.apply(
        f"{accounts}/planless", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "planless"}}
    )
    token = cluster.server.request("POST", f"{accounts}/planless/token", {"spec": {"expirationSeconds": 600}})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": cluster.server.url, "certificate-authority": str(cluster.server.ca)}}
        ],
        "users": [{"name": "u", "user": {"token": token["status"]["token"]}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    found = cluster.admc("secret", "--kubeconfig", path)
    assert found.code == 1
    assert "error[ADM935]: the API server does not permit to read the Program `secret`" in found.err
    found = cluster.admc("secret", "--kubeconfig", path, "--namespace", "default")
    assert "does not permit to read the ConfigMaps of namespace `default`" in found.err
    path.write_text(json.dumps(config).replace(cluster.server.url, "https://127.0.0.1:1"))
    assert "error[ADM935]: the API server does not answer" in cluster.admc("secret", "--kubeconfig", path).err


async def test_a_plan_that_is_replaced_while_it_is_read_is_read_again(programs_api: ApiServer) -> None:
    from admc.cli.plan import _plan
    from admc.kubernetes.cluster.program.plan_objects import PlanReference
    from admc.kubernetes.cluster.program.plan_store import CONFIG_MAPS

    first = plan_objects(b"first", Owner("moving", "u"), "default", "main")
    second = plan_objects(b"second", Owner("moving", "u"), "default", "main")
    there = {first.directory["metadata"]["name"]: first.directory, **second.parts}

    class Moving:
        async def get(self, path: str, **params: object) -> dict[str, Any]:
            from admc.kubernetes.cluster.api.errors import ApiError

            name = path.removeprefix(f"{CONFIG_MAPS.format('default')}/")
            if name not in there:
                there[first.directory["metadata"]["name"]] = second.directory
                raise ApiError(404, "NotFound", f'configmaps "{name}" not found')
            return there[name]

    api: Any = Moving()
    async with asyncio.timeout(10):
        found = await _plan(api, "moving", PlanReference("default", "admc-moving-plan", ""))
        assert found == (b"second", None)
