"""What admc writes about a Program, with a real API server: status, events, and the plan in its ConfigMaps."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import random
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.watched import Watched
from admc.kubernetes.cluster.closing.policies import ClusterClosing
from admc.kubernetes.cluster.names import CONTROLLER, FIELD_MANAGER, PROGRAMS
from admc.kubernetes.cluster.program.conditions import Condition, Names, Verdict, unknown
from admc.kubernetes.cluster.program.events import rollout_step
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.program.plan_objects import PLAN_OF, PlanConfigMap, PlanObjectError, plan_config_map
from admc.kubernetes.cluster.program.plan_store import PlanStore, stored_plan
from admc.kubernetes.cluster.program.reader import read
from admc.kubernetes.cluster.program.spec import ProgramObject, program_object
from admc.kubernetes.cluster.program.status import Report
from admc.kubernetes.cluster.program.status_writer import SPACING_SECONDS, StatusWriter
from admc.kubernetes.cluster.retry_loop import ChangedKeys
from tests.cluster import tools
from tests.cluster.api_server import ApiError
from tests.cluster.process import Running
from tests.emitters.interception.build import program, service, wholly_closed
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api
    from tests.cluster.api_server import ApiServer

POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 20.0


@asynccontextmanager
async def connected(server: ApiServer) -> AsyncIterator[Api]:
    async with await connect(server.kubeconfig) as api:
        yield api


def applied(server: ApiServer, name: str, **spec: Any) -> ProgramObject:
    files = {"policies.adm": "app shop\n"}
    body = {
        "apiVersion": "admc.dev/v1alpha1",
        "kind": "Program",
        "metadata": {"name": name},
        "spec": {"controller": "main", **({} if "configMaps" in spec else {"files": files}), **spec},
    }
    made = program_object(server.apply(f"{PROGRAMS}/{name}", body))
    assert made is not None
    return made


def seen(server: ApiServer, name: str) -> ProgramObject:
    found = program_object(server.request("GET", f"{PROGRAMS}/{name}"))
    assert found is not None
    return found


def table(server: ApiServer) -> dict[str, list[Any]]:
    """What `kubectl get programs` shows: name -> cells."""
    place, tls = server.place, ssl.create_default_context(cafile=str(server.ca))
    connection = http.client.HTTPSConnection(place.address, place.port, timeout=SECONDS, context=tls)
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    connection.request("GET", PROGRAMS, headers={"Authorization": f"Bearer {server.admin_token}", "Accept": accept})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert [column["name"] for column in answer["columnDefinitions"]] == [
        *("Name", "Controller", "Mode", "Accepted", "Resolved", "Programmed", "ADMs", "Age"),
    ]
    return {row["cells"][0]: row["cells"][1:-1] for row in answer["rows"]}


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_so():
            await asyncio.sleep(0.02)


def report(generation: int, **more: Any) -> Report:
    verdicts = {
        Condition.ACCEPTED: Verdict(True, "Accepted", "the program compiles"),
        Condition.RESOLVED: Verdict(False, "NotResolved", "policies.adm:2:1: ADM940: no Service"),
        Condition.PROGRAMMED: unknown("NoPlan", "there is no plan yet"),
    }
    return Report(generation, verdicts, **more)


async def test_a_status_shows_in_the_columns_and_is_written_only_if_it_differs(programs_api: ApiServer) -> None:
    given = applied(programs_api, "columns", mode="Audit")
    assert table(programs_api)["columns"] == ["main", "Audit", None, None, None, None]
    async with connected(programs_api) as api:
        writer = StatusWriter(api, "main", "replica-1")
        full = report(given.generation, adms=3, services=8, pods=12, lacking=Names.of(["a/b"]), namespaces=["shop"])
        assert await writer.write(given, full)
        assert not await writer.write(given, full), "the watch is behind"
        assert table(programs_api)["columns"] == ["main", "Audit", "True", "False", "Unknown", 3]
        now = seen(programs_api, "columns")
        assert now.generation == given.generation, "a status is no change of the spec"
        assert not await writer.write(now, full)
        assert not await StatusWriter(api, "main", "replica-2").write(now, full), "another replica finds the same"
        assert await writer.write(now, report(given.generation, adms=2))
        assert "pods" not in seen(programs_api, "columns").status, "what is not said any more is gone"


async def test_counts_of_pods_alone_are_written_now_and_then(programs_api: ApiServer) -> None:
    given = applied(programs_api, "counts")
    now = 100.0
    async with connected(programs_api) as api:
        writer = StatusWriter(api, "main", "replica-1", clock=lambda: now)
        assert await writer.write(given, report(1, adms=3, pods=12))
        now += SPACING_SECONDS - 1
        assert not await writer.write(given, report(1, adms=3, pods=13))
        assert await writer.write(given, report(1, adms=4, pods=13)), "something else differs"
        now += SPACING_SECONDS
        assert await writer.write(given, report(1, adms=4, pods=14))
        assert seen(programs_api, "counts").status["pods"]["total"] == 14


async def test_a_status_that_a_hand_changes_is_written_again(programs_api: ApiServer) -> None:
    given = applied(programs_api, "by-hand")
    async with connected(programs_api) as api:
        writer = StatusWriter(api, "main", "replica-1")
        await writer.write(given, report(1, adms=3))
        body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Program", "status": {"adms": 7}}
        programs_api.apply(f"{PROGRAMS}/by-hand/status", {**body, "metadata": {"name": "by-hand"}})
        now = seen(programs_api, "by-hand")
        assert now.status["adms"] == 7
        assert await writer.write(now, report(1, adms=3))
        assert seen(programs_api, "by-hand").status["adms"] == 3


async def test_events_of_a_program(programs_api: ApiServer) -> None:
    given = applied(programs_api, "eventful")
    async with connected(programs_api) as api:
        writer = StatusWriter(api, "main", "replica-1")
        await writer.write(given, report(1))
        await writer.event(given, rollout_step("step `prepare` of the first move"))
    listed = programs_api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    own = [each for each in listed if each["regarding"]["uid"] == given.uid]
    assert sorted((each["type"], each["action"], each["reason"]) for each in own) == [
        ("Normal", "Accepted", "Accepted"),
        ("Normal", "Programmed", "NoPlan"),
        ("Normal", "RollOut", "RolloutStep"),
        ("Warning", "Resolved", "NotResolved"),
    ]
    assert {each["reportingController"] for each in own} == {"admc.dev/main"}


async def test_a_program_in_config_maps_waits_until_all_are_there(programs_api: ApiServer) -> None:
    text = "app shop\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    given = applied(programs_api, "in-maps", configMaps=[{"name": "in-maps", "sha256": digest}])
    async with connected(programs_api) as api:
        missing = await read(api, given, "default")
        assert missing.waits
        assert [item.code for item in missing.findings] == ["ADM932"]
        assert await read(api, given, "default", missing) is missing, "nothing is unpacked again"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "in-maps"}}
        programs_api.apply(f"{MAPS}/in-maps", {**body, "data": {"policies.adm": text}})
        there = await read(api, given, "default", missing)
        assert there.content is not None
        assert there.content.files == {"policies.adm": text.encode()}


# ---- the plan ----


class Plans:
    """A store that follows the cluster, as the server has it."""

    def __init__(self, api: Api, server: ApiServer, name: str) -> None:
        given = applied(server, name)
        self.owner = Owner(given.name, given.uid)
        self.api, self.server, self.name = api, server, name
        selector = f"{CONTROLLER}=main,{PLAN_OF}={name}"
        shown = ChangedKeys()
        self.watched: Watched[PlanConfigMap] = Watched(api, MAPS, plan_config_map, selector, changed=shown.note)
        self.store = PlanStore(api, "default", "main", self.watched.items, shown)

    @property
    def parts(self) -> list[str]:
        return sorted(key.name for key in self.watched.items if key.name != f"admc-{self.name}-plan")

    async def settle(self) -> None:
        """Until the cluster has the plan, and the watch shows it."""
        async with asyncio.timeout(SECONDS):
            await self.watched.synced.wait()
            while await self.store.sync() or self.store.shown.pending.is_set():
                await asyncio.sleep(0.1)

    async def read(self) -> bytes:
        return await stored_plan(self.api, "default", f"admc-{self.name}-plan")


@asynccontextmanager
async def plans(server: ApiServer, name: str) -> AsyncIterator[Plans]:
    async with connected(server) as api:
        made = Plans(api, server, name)
        watching = asyncio.create_task(made.watched.run())
        try:
            yield made
        finally:
            watching.cancel()


def large_plan(seed: int) -> bytes:
    """As large as that of 10,000 services: 12 MB, and 1 MB packed."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    lines = [
        f'    {{"policy": "quota-{draw.randrange(1 << 40)}", "source": "service-{number % 10_000}", "destination": '
        f'"service-{number % 9_973}", "port": 8080, "place": "egress", "service": "service-{number % 10_000}"}},\n'
        for number in range(90_000)
    ]
    return "".join(lines).encode()


async def test_a_large_plan_comes_back_as_it_was_and_its_parts_go_with_the_next(programs_api: ApiServer) -> None:
    first, second = large_plan(1), large_plan(2)
    assert len(first) > 11_000_000
    async with plans(programs_api, "large") as made:
        reference = await made.store.put(first, made.owner)
        await made.settle()
        assert await made.read() == first
        parts = made.parts
        assert len(parts) > 2
        for name in parts:
            part = programs_api.request("GET", f"{MAPS}/{name}")
            assert len(part["binaryData"]["part"]) <= 512_000
            assert part["immutable"]
            assert part["metadata"]["ownerReferences"] == [made.owner.reference]
            assert [each["manager"] for each in part["metadata"]["managedFields"]] == [FIELD_MANAGER]
        assert (await made.store.put(first, made.owner)) == reference
        assert not await made.store.sync(), "the same plan is written once"
        await made.store.put(second, made.owner)
        await made.settle()
        assert await made.read() == second
        assert not set(parts) & set(made.parts)


@pytest.mark.parametrize("how", ["altered", "removed", "index altered", "index removed", "label", "owner", "another"])
async def test_what_a_hand_does_to_a_plan_is_noticed_and_mended(programs_api: ApiServer, how: str) -> None:
    plan = b'{"app": "shop"}\n' * 1000
    name = f"healed-{how.replace(' ', '-')}"
    async with plans(programs_api, name) as made:
        await made.store.put(plan, made.owner)
        await made.settle()
        (part,) = made.parts
        index = f"admc-{name}-plan"
        path = f"{MAPS}/{index if 'index' in how else part}"
        document = programs_api.request("GET", path)
        fresh = {key: document["metadata"][key] for key in ("name", "labels", "ownerReferences")}
        if how == "altered":
            programs_api.request("DELETE", path)
            body = {**document, "metadata": fresh, "binaryData": {"part": "AAAA"}}
            programs_api.request("POST", MAPS, body)
        elif how == "index altered":
            text = document["data"]["index.json"].replace('"size": 16000', '"size": 17000')
            programs_api.request("PUT", path, {**document, "data": {"index.json": text}})
        elif how == "another":
            programs_api.request("POST", MAPS, {**document, "metadata": {**fresh, "name": f"{part}0"}})
        elif how in ("label", "owner"):
            change = {"labels": {CONTROLLER: "other"}} if how == "label" else {"ownerReferences": None}
            programs_api.request("PATCH", path, {"metadata": change}, "application/merge-patch+json")
        else:
            programs_api.request("DELETE", path)
        if how in ("altered", "index altered"):
            with pytest.raises(PlanObjectError, match="digest"):
                await made.read()
        await until(made.store.shown.pending.is_set)
        await made.settle()
        assert await made.read() == plan
        mended = programs_api.request("GET", path)["metadata"]
        assert (mended["labels"], mended["ownerReferences"]) == (fresh["labels"], fresh["ownerReferences"])
        assert made.parts == [part]


# ---- what goes with a Program ----


@pytest.fixture
def collector(programs_api: ApiServer, tmp_path: Path) -> Iterator[None]:
    """The garbage collector of Kubernetes, and no other controller."""
    try:
        command = str(tools.find(tools.CONTROLLER_MANAGER))
    except tools.MissingError as error:
        pytest.skip(str(error))
    options = [
        f"--kubeconfig={programs_api.kubeconfig}",
        "--controllers=garbage-collector-controller",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
    ]
    running = Running("kube-controller-manager", [command, *options], tmp_path / "log")
    try:
        yield
    finally:
        running.kill()


async def test_what_admc_wrote_goes_with_its_program(programs_api: ApiServer, collector: None) -> None:
    async with plans(programs_api, "going") as made:
        await made.store.put(b"plan", made.owner)
        await made.settle()
        (part,) = made.parts
        closing = ClusterClosing(made.api, "main", lambda: made.owner, {}, lambda: {"db": {"app": "db"}})
        closing.ask(wholly_closed(program([service("db")], []), "db"))
        await closing.refresh()
        paths = [f"{MAPS}/{part}", f"{MAPS}/admc-going-plan", f"{POLICIES}/admc-close-db"]
        assert all(is_there(programs_api, path) for path in paths)
        programs_api.request("DELETE", f"{PROGRAMS}/going")
        await until(lambda: not any(is_there(programs_api, path) for path in paths))


def is_there(server: ApiServer, path: str) -> bool:
    try:
        server.request("GET", path)
    except ApiError as error:
        return error.status != 404
    return True
