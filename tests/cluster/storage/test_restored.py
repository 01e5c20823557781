"""The server goes on from Secrets: what they do not have, it makes again as proxies had acknowledged it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from admc.serve.reconciler import Reconciler
from tests.cluster.memory_api import MemoryApi
from tests.cluster.storage.secrets_of import replica
from tests.cluster.storage.test_secret_storage import STATE
from tests.serve.memory_environment import MemoryEnvironment, source_of
from xds_server.resources.ack_events import Nacked
from xds_server.resources.types import EXTENSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from admc.kubernetes.cluster.storage.storage import SecretStorage
    from xds_server.resources.snapshot import Snapshot

PROGRAM = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy tier = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin tier at egress
"""


class FromSecrets(MemoryEnvironment):
    """With Secrets as storage."""

    def __init__(self, storage: SecretStorage) -> None:
        super().__init__()
        self.storage = storage  # type: ignore[assignment]


async def until(found: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not found():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def server(api: MemoryApi, writer: str, program: str) -> AsyncIterator[Reconciler]:
    environment = FromSecrets(replica(api, writer).storage)
    environment.programs.set(source_of({"files": {"policies.adm": program}}))
    reconciler = Reconciler(environment)
    running = asyncio.create_task(reconciler.run())
    try:
        yield reconciler
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await reconciler.close()


def current_versions(reconciler: Reconciler) -> dict[str, str]:
    store = reconciler.config.store
    return {name: snapshot.version for name in store.groups if (snapshot := store.current(name))}


@pytest.mark.long
async def test_a_snapshot_that_is_not_kept_is_made_again_and_counts_as_acknowledged() -> None:
    api = MemoryApi()
    async with server(api, "one", PROGRAM) as first:
        store = first.config.store
        await until(lambda: STATE in api.objects and api.objects[STATE]["data"])
        await until(lambda: store.groups)  # a plan is stored before it is published
        for name in store.groups:
            snapshot = store.current(name)
            assert snapshot is not None
            store.acked(name, snapshot)
        before = current_versions(first)
        assert set(before) == {"web", "cart"}
        await first.save()
    assert (await replica(api, "reader").peek()).state.groups == {}
    # The program of the next server has errors, so it serves what was kept, at the addresses that it reads.
    async with server(api, "two", "half of") as second:
        await until(lambda: second.config.ready)
        assert current_versions(second) == before
        assert {name: snapshot.version for name, snapshot in second.config.acknowledged.items()} == before


@pytest.mark.long
async def test_what_a_proxy_had_acknowledged_before_it_refused_is_kept() -> None:
    api = MemoryApi()
    async with server(api, "one", PROGRAM) as first:
        await until(lambda: first.config.ready and api.objects.get(STATE, {}).get("data"))
        config = first.config
        acked = config.store.current("web")
        assert acked is not None
        config.store.acked("web", acked)
        first.environment.programs.set(  # type: ignore[attr-defined]
            source_of({"files": {"policies.adm": PROGRAM.replace("gold", "silver")}})
        )
        await until(lambda: config.store.current("web") is not acked)
        current = config.store.current("web")
        assert current is not None
        config.store.nacked("web", nack_of(current))
        assert config.refusing == {"web"}
        first.environment.storage._saved_at = -1e9  # type: ignore[union-attr]
        await first.save()
    found = (await replica(api, "reader").peek()).state
    assert found.groups["web"].version == acked.version


def nack_of(snapshot: Snapshot) -> Nacked:
    """A proxy refuses all filter configurations of a snapshot."""
    versions = {name: item.version for name, item in snapshot.collections[EXTENSION].resources.items()}
    return Nacked(EXTENSION, snapshot.version, "no", snapshot, dict(versions))
