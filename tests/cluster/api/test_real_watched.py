"""List and watch against a real API server: pages, compacted history, kills, connections that fall silent or break."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.api import requests
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.counts import Request
from tests.cluster.api.proxy import kubeconfig_of, proxied
from tests.cluster.api.recorder import MAPS, recorded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from admc.kubernetes.cluster.api.requests import Api
    from tests.cluster.api_server import ApiServer

LIST = Request("list", "configmaps", "200")
WATCH = Request("watch", "configmaps", "200")


def _map(name: str, text: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"text": text},
    }


async def _namespace(api: Api, name: str) -> str:
    """The path of the ConfigMaps of a new namespace."""
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return MAPS.format(name)


async def _apply(api: Api, path: str, **texts: str) -> None:
    await asyncio.gather(*(api.apply(f"{path}/{name}", _map(name, text)) for name, text in texts.items()))


@pytest.fixture
async def api(cluster_api: ApiServer) -> AsyncIterator[Api]:
    async with await connect(cluster_api.kubeconfig) as found:
        yield found


async def test_pages_make_one_list_and_changes_follow(api: Api) -> None:
    path = await _namespace(api, "pages")
    texts = {f"m{number:02}": str(number) for number in range(25)}
    await _apply(api, path, **texts)
    async with recorded(api, path, page=4) as recorder:
        assert recorder.items == texts
        assert api.counts[LIST] == 7
        assert recorder.take() == [(name, None, text) for name, text in texts.items()]
        await _apply(api, path, m00="changed", new="1")
        await api.delete(f"{path}/m01")
        await recorder.until(lambda: "m01" not in recorder.items)
        assert sorted(recorder.take()) == [("m00", "0", "changed"), ("m01", "1", None), ("new", None, "1")]
        await api.apply(f"{path}/new", _map("new", "1", noticed="no"))
        await _apply(api, path, last="1")
        await recorder.until(lambda: "last" in recorder.items)
        assert recorder.take() == [("last", None, "1")]  # a new version of an equal record is no difference
    assert api.counts[LIST] == 7
    assert sum(request.verb == "watch" for request in api.counts) == 1


async def test_selectors_choose_and_an_object_leaves_with_its_label(api: Api) -> None:
    path = await _namespace(api, "selected")
    for name, side in (("a", "left"), ("b", "right")):
        await api.apply(f"{path}/{name}", _map(name, "1", side=side))
    async with recorded(api, path, label_selector="side=left") as recorder:
        assert recorder.items == {"a": "1"}
        await api.apply(f"{path}/b", _map("b", "1", side="left"))
        await api.apply(f"{path}/a", _map("a", "1", side="right"))
        await recorder.until(lambda: recorder.items == {"b": "1"})
    async with recorded(api, path, field_selector="metadata.name=a") as recorder:
        assert recorder.items == {"a": "1"}


async def test_watches_that_the_server_ends_go_on_without_a_list(api: Api) -> None:
    path = await _namespace(api, "ended")
    async with recorded(api, path, watch_seconds=1) as recorder:
        for number in range(40):
            await _apply(api, path, a=str(number))
            await asyncio.sleep(0.1)
        await recorder.until(lambda: recorder.items == {"a": "39"})
        assert recorder.reported == [("a", str(n - 1) if n else None, str(n)) for n in range(40)]
        assert api.counts[LIST] == 1
        assert api.counts[WATCH] >= 3
        assert recorder.watched.problem == ""


async def test_a_page_whose_version_is_compacted_begins_the_list_anew(
    new_cluster_api: Callable[..., ApiServer],
) -> None:
    server = await asyncio.to_thread(new_cluster_api)
    async with await connect(server.kubeconfig) as api:
        path = await _namespace(api, "compacted")
        await _apply(api, path, a="1", b="1", c="1", d="1")

        class Interrupted:
            """Behind the second page, the history is compacted and the API server starts anew."""

            pages = 0
            events = staticmethod(api.events)

            async def get(self, path: str, **params: object) -> dict[str, Any]:
                self.pages += 1
                if self.pages == 3:
                    await api.delete(f"{path}/a")
                    await api.delete(f"{path}/d")
                    server.kill()
                    server.compact()
                    await asyncio.to_thread(server.restart)
                return await api.get(path, **params)

        reader = Interrupted()
        async with recorded(reader, path, page=1) as recorder:
            assert recorder.items == {"b": "1", "c": "1"}
            assert recorder.take() == [("b", None, "1"), ("c", None, "1")]
        assert api.counts[Request("list", "configmaps", "410")] == 1


async def test_after_compaction_only_the_difference_is_reported(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path
) -> None:
    server = await asyncio.to_thread(new_cluster_api)
    async with (
        proxied(server) as proxy,
        await connect(kubeconfig_of(server, proxy, tmp_path)) as api,
        await connect(server.kubeconfig) as direct,
    ):
        path = await _namespace(direct, "away")
        await _apply(direct, path, kept="1", changed="1", lost="1", back="1")
        async with recorded(api, path) as recorder:
            recorder.take()
            proxy.refuses = True
            proxy.cut()
            await _apply(direct, path, changed="2", back="2", new="1")
            await _apply(direct, path, back="1")
            await direct.delete(f"{path}/lost")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.compact)
            await asyncio.to_thread(server.restart)
            await recorder.until(lambda: bool(recorder.watched.problem))
            assert recorder.items == {"kept": "1", "changed": "1", "lost": "1", "back": "1"}
            proxy.refuses = False
            await recorder.until(lambda: "new" in recorder.items)
            assert recorder.take() == [("changed", "1", "2"), ("lost", "1", None), ("new", None, "1")]
            await recorder.until(lambda: not recorder.watched.problem)
            await _apply(direct, path, after="1")
            await recorder.until(lambda: "after" in recorder.items)
        assert api.counts[LIST] == 2


async def test_a_killed_api_server_that_is_back_is_followed_again(
    new_cluster_api: Callable[..., ApiServer],
) -> None:
    server = await asyncio.to_thread(new_cluster_api)
    async with await connect(server.kubeconfig) as api:
        path = await _namespace(api, "killed")
        await _apply(api, path, a="1", b="1")
        async with recorded(api, path) as recorder:
            recorder.take()
            server.kill()
            await recorder.until(lambda: bool(recorder.watched.problem))
            assert recorder.items == {"a": "1", "b": "1"}
            await asyncio.to_thread(server.restart)
            await _apply(api, path, a="2", c="1")
            await recorder.until(lambda: "c" in recorder.items and recorder.items["a"] == "2")
            assert sorted(recorder.take()) == [("a", "1", "2"), ("c", None, "1")]
            assert recorder.watched.problem == ""


async def test_a_connection_that_fell_silent_is_begun_anew(
    cluster_api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "GRACE_SECONDS", 1.0)
    async with (
        proxied(cluster_api) as proxy,
        await connect(kubeconfig_of(cluster_api, proxy, tmp_path)) as api,
        await connect(cluster_api.kubeconfig) as direct,
    ):
        path = await _namespace(direct, "silent")
        async with recorded(api, path, watch_seconds=2) as recorder:
            await _apply(direct, path, before="1")
            await recorder.until(lambda: "before" in recorder.items)
            proxy.silence()
            await _apply(direct, path, a="1")
            await asyncio.sleep(0.5)
            assert "a" not in recorder.items
            await recorder.until(lambda: "a" in recorder.items)
            assert recorder.take() == [("before", None, "1"), ("a", None, "1")]
        assert api.counts[LIST] == 1


def _open_to(port: int) -> int:
    """Established connections whose other end is the port."""
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return sum(line[2].endswith(f":{port:04X}") and line[3] == "01" for line in lines)


async def test_a_watch_that_is_left_leaves_no_connection_to_a_silent_server(
    cluster_api: ApiServer, tmp_path: Path
) -> None:
    async with (
        proxied(cluster_api) as proxy,
        await connect(kubeconfig_of(cluster_api, proxy, tmp_path)) as api,
        await connect(cluster_api.kubeconfig) as direct,
    ):
        path = await _namespace(direct, "left")
        async with recorded(api, path) as recorder:
            await _apply(direct, path, a="1")
            await recorder.until(lambda: "a" in recorder.items)
            assert _open_to(proxy.port) == 1
            proxy.silence()
        await asyncio.sleep(0.1)
        assert _open_to(proxy.port) == 0


async def test_a_request_that_is_cancelled_leaves_no_connection(cluster_api: ApiServer, tmp_path: Path) -> None:
    async with proxied(cluster_api) as proxy:
        async with await connect(kubeconfig_of(cluster_api, proxy, tmp_path)) as api:
            await api.get("/api/v1/namespaces/default")
            request = asyncio.create_task(api.get("/api/v1/namespaces/default"))
            await asyncio.sleep(0.001)
            request.cancel()
            (ended,) = await asyncio.gather(request, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError)
        assert _open_to(proxy.port) == 0


async def test_under_random_faults_nothing_is_lost_or_reported_twice(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder holds each report against the last state of its object."""
    monkeypatch.setattr(requests, "GRACE_SECONDS", 0.5)
    server, chance = await asyncio.to_thread(new_cluster_api), random.Random(13)  # noqa: S311 - no secret
    async with (
        proxied(server) as proxy,
        await connect(kubeconfig_of(server, proxy, tmp_path)) as api,
        await connect(server.kubeconfig) as direct,
    ):
        path = await _namespace(direct, "random")
        expected: dict[str, str] = {}
        async with recorded(api, path, watch_seconds=1.5, page=3) as recorder:
            until = time.monotonic() + 12
            while time.monotonic() < until:
                name = f"m{chance.randrange(12)}"
                if name in expected and chance.random() < 0.4:
                    await direct.delete(f"{path}/{name}")
                    del expected[name]
                else:
                    expected[name] = str(chance.randrange(3))
                    await _apply(direct, path, **{name: expected[name]})
                fault = chance.random()
                if fault < 0.03:
                    proxy.cut()
                elif fault < 0.05:
                    proxy.silence()
                elif fault < 0.055:
                    server.kill()
                    server.compact()
                    await asyncio.to_thread(server.restart)
                await asyncio.sleep(chance.random() * 0.05)
            await recorder.until(lambda: recorder.items == expected)
            assert len(recorder.reported) > 50
        assert api.counts[WATCH] > 3
