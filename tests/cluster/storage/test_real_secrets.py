"""The kept state at a real API server: what it refuses, what is noticed, and how much a large mesh takes."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from admc.base.exits import CommandError
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.storage.record import Names
from admc.kubernetes.cluster.storage.watch import watched
from tests.cluster.api_server import ApiError
from tests.cluster.storage.secrets_of import POSITION, RECIPE, moving, replica, snapshot, versions
from tests.cluster.storage.test_secret_storage import with_index

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from admc.kubernetes.cluster.api.requests import Api
    from tests.cluster.api_server import ApiServer

SERVICES = 10_000
ADMS = 3_700


@pytest.fixture
async def api(cluster_api: ApiServer) -> AsyncIterator[Api]:
    async with await connect(cluster_api.kubeconfig) as found:
        yield found


def secrets_of(server: ApiServer, names: Names) -> dict[str, dict[str, Any]]:
    found = server.request("GET", f"{names.collection}?labelSelector=admc.dev/controller%3D{names.installation}")
    return {item["metadata"]["name"]: item for item in found["items"]}


async def test_a_state_is_read_back_and_no_part_of_it_can_be_altered(cluster_api: ApiServer, api: Api) -> None:
    names = Names("altered", "default")
    server = replica(api, "one", names)
    await server.load()
    await server.store(moving("a"), {"a": snapshot("x")})
    found = await replica(api, "two", names).load()
    assert found.position == moving("a")
    assert versions(found.groups) == {"a": snapshot("x").version}
    secrets = secrets_of(cluster_api, names)
    assert set(secrets) > {names.state, names.under_way}
    (part,) = (name for name in secrets if names.digest(name))
    changed = secrets[part] | {"data": {"part": "AAAA"}}
    with pytest.raises(ApiError, match="immutable"):
        cluster_api.request("PUT", f"{names.collection}/{part}", changed)


async def test_a_secret_that_is_deleted_is_written_again(cluster_api: ApiServer, api: Api) -> None:
    names = Names("deleted", "default")
    server = replica(api, "one", names)
    await server.load()
    await server.store(moving("a"), {"a": snapshot("x")})
    watch = watched(api, names, server.storage)
    watching = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(watch.synced.wait(), 10)
        assert not await server.renew()
        for name in (*filter(names.digest, secrets_of(cluster_api, names)), names.state):
            cluster_api.request("DELETE", f"{names.collection}/{name}")
            async with asyncio.timeout(10):
                while not await server.renew():
                    await asyncio.sleep(0.05)
            assert await server.save(None)
            assert (await replica(api, "reader", names).peek()).state.position == moving("a")
        await asyncio.sleep(0.5)
        assert not await server.renew()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_a_state_of_a_newer_admc_is_refused_in_words(cluster_api: ApiServer, api: Api) -> None:
    names = Names("newer", "default")
    server = replica(api, "one", names)
    await server.load()
    await server.store(POSITION)
    secret = secrets_of(cluster_api, names)[names.state]
    with_index(lambda document: document.update(schema_version=9))(secret)
    cluster_api.request("PUT", f"{names.collection}/{names.state}", secret)
    other = replica(api, "two", names)
    with pytest.raises(CommandError) as caught:
        await other.load()
    assert "schema version 9" in (caught.value.diagnostics[0].cause or "")
    assert other.storage.may_begin_anew
    await other.store(POSITION)
    assert (await replica(api, "three", names).load()).position == POSITION


async def test_a_mesh_of_ten_thousand_services_fits(cluster_api: ApiServer, api: Api) -> None:
    names = Names("large", "default")
    rows = [
        {"service": f"s{number}", "ports": [8080], "policies": [f"p{number}"] * 50, "because": "x" * 900}
        for number in range(SERVICES)
    ]
    plan = json.dumps(rows).encode()
    recipe = RECIPE._replace(plan=plan)
    server = replica(api, "one", names)
    await server.load()
    began = time.monotonic()
    await server.store(POSITION._replace(plans={"plan": recipe}), {})
    groups = {f"s{number}": snapshot(*(f"s{number}/{each}" for each in range(50))) for number in range(ADMS)}
    position = moving(*groups)
    await server.store(position._replace(plans={"plan": recipe, "next": recipe._replace(plan=plan + b" ")}), groups)
    stored = time.monotonic() - began
    sizes = [
        sum(len(base64.b64decode(value)) for value in (secret.get("data") or {}).values())
        for secret in secrets_of(cluster_api, names).values()
    ]
    assert len(sizes) < 64
    assert max(sizes) <= 512 * 1024
    began = time.monotonic()
    found = await replica(api, "two", names).load()
    read = time.monotonic() - began
    assert len(found.groups) == ADMS
    assert found.position.plans["plan"].plan == plan
    print(f"{len(plan):,} bytes of plan, {len(sizes)} Secrets, {sum(sizes):,} bytes; {stored:.1f} s, {read:.1f} s")
    assert stored < 60
    assert read < 60
