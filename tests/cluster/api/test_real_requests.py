"""Requests, applies and tokens against a real API server."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from admc.kubernetes.cluster.api import connection
from admc.kubernetes.cluster.api.applied import Applied
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.counts import Request
from admc.kubernetes.cluster.api.errors import ApiError, is_refusal
from tests.cluster.api.made_server import kubeconfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api
    from tests.cluster.api_server import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"


@pytest.fixture
async def api(cluster_api: ApiServer) -> AsyncIterator[Api]:
    async with await connect(cluster_api.kubeconfig) as found:
        yield found


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_an_object_from_its_creation_to_its_end(api: Api) -> None:
    made = await api.create(MAPS, _map("life", a="1"))
    with pytest.raises(ApiError) as error:
        await api.create(MAPS, _map("life", a="1"))
    assert error.value.is_already_there
    assert not error.value.is_conflict
    changed = await api.replace(f"{MAPS}/life", {**made, "data": {"a": "2"}})
    assert changed["data"] == {"a": "2"}
    with pytest.raises(ApiError, match="409 Conflict") as error:
        await api.replace(f"{MAPS}/life", {**made, "data": {"a": "3"}})
    assert error.value.is_conflict
    assert (await api.get(f"{MAPS}/life"))["data"] == {"a": "2"}
    with pytest.raises(ApiError) as error:
        await api.delete(f"{MAPS}/life", uid="another")
    assert error.value.is_conflict
    await api.delete(f"{MAPS}/life", uid=made["metadata"]["uid"])
    with pytest.raises(ApiError, match='404 NotFound: configmaps "life" not found') as error:
        await api.get(f"{MAPS}/life")
    assert error.value.is_not_found
    assert api.counts[Request("update", "configmaps", "409")] == 1
    assert api.counts[Request("delete", "configmaps", "200")] == 1


async def test_an_apply_of_the_same_changes_nothing_and_of_less_removes(api: Api) -> None:
    first = await api.apply(f"{MAPS}/applied", _map("applied", a="1", b="2"))
    again = await api.apply(f"{MAPS}/applied", _map("applied", b="2", a="1"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    less = await api.apply(f"{MAPS}/applied", _map("applied", a="1"))
    assert less["data"] == {"a": "1"}


async def test_a_field_of_another_manager_is_a_conflict_unless_forced(api: Api, cluster_api: ApiServer) -> None:
    cluster_api.apply(f"{MAPS}/theirs", _map("theirs", a="theirs"))
    with pytest.raises(ApiError, match="conflict with") as error:
        await api.apply(f"{MAPS}/theirs", _map("theirs", a="ours"), force=False)
    assert error.value.is_conflict
    assert (await api.apply(f"{MAPS}/theirs", _map("theirs", a="ours")))["data"] == {"a": "ours"}


async def test_the_status_is_applied_by_itself(api: Api) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "it"},
        "spec": {"ports": [{"port": 80, "protocol": "TCP"}]},
    }
    await api.apply(f"{SERVICES}/it", service)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Tried",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {key: service[key] for key in ("apiVersion", "kind", "metadata")} | {"status": {"conditions": [condition]}}
    await api.apply(f"{SERVICES}/it", status, subresource="status")
    found = await api.get(f"{SERVICES}/it")
    assert found["status"]["conditions"] == [condition]
    assert found["spec"]["ports"][0]["port"] == 80
    assert api.counts[Request("patch", "services/status", "200")] == 1


async def test_applied_asks_only_where_something_changes(api: Api, cluster_api: ApiServer) -> None:
    applied, path = Applied(api), f"{SERVICES}/once"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "once", "labels": {"a": "1"}},
        "spec": {"selector": {"app": "it"}, "ports": [{"port": 80}]},
    }
    assert await applied.apply(path, service)
    assert not await applied.apply(path, service)
    first = await api.get(path)
    assert not applied.seen(path, first)  # defaults of the cluster are no difference
    await asyncio.to_thread(
        cluster_api.apply, path, {**service, "metadata": {"labels": {"b": "2"}}, "spec": {}}, "other"
    )
    assert not applied.seen(path, await api.get(path))  # nor are fields of others
    assert not await applied.apply(path, service)

    altered = {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "altered"}}}
    await asyncio.to_thread(cluster_api.apply, path, altered, "by-hand")
    assert applied.seen(path, await api.get(path))
    assert await applied.apply(path, service)
    assert (await api.get(path))["spec"]["selector"] == {"app": "it"}
    assert not applied.seen(path, first)  # an event from before the last apply
    assert not await applied.apply(path, service)

    await api.delete(path)
    assert applied.seen(path, None)
    assert await applied.apply(path, service)
    assert api.counts[Request("patch", "services", "200")] + api.counts[Request("patch", "services", "201")] == 3


async def test_a_token_that_is_renewed_on_disk_is_read_again(
    cluster_api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TOKEN_SECONDS", 0.3)
    token = tmp_path / "token"
    token.write_text("of another cluster", encoding="utf-8")
    path = kubeconfig(tmp_path / "config", cluster_api.url, tokenFile=str(token))
    path.write_text(path.read_text().replace("server:", f"certificate-authority: {cluster_api.ca}\n    server:"))
    async with await connect(path) as api:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await api.get(MAPS)
        token.write_text(cluster_api.admin_token, encoding="utf-8")
        await asyncio.sleep(0.4)
        assert (await api.get(MAPS))["kind"] == "ConfigMapList"
        token.unlink()
        await asyncio.sleep(0.4)
        assert (await api.get(MAPS))["kind"] == "ConfigMapList"


async def test_a_pod_has_its_service_account(
    cluster_api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TOKEN_SECONDS", 0.0)
    monkeypatch.setattr(connection, "_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    url = urlsplit(cluster_api.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(url.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(url.port))
    shutil.copy(cluster_api.ca, tmp_path / "ca.crt")
    (tmp_path / "token").write_text("of another cluster", encoding="utf-8")
    async with await connect() as api:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await api.get(MAPS)
        (tmp_path / "token").write_text(cluster_api.admin_token, encoding="utf-8")
        assert (await api.get(MAPS))["kind"] == "ConfigMapList"


async def test_a_server_of_another_authority_is_not_talked_to(cluster_api: ApiServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", cluster_api.url, token=cluster_api.admin_token)
    async with await connect(path) as api:
        with pytest.raises(ApiError, match="certificate verify failed"):
            await api.get(MAPS)


async def test_keys_of_tokens_are_an_answer_like_others(api: Api) -> None:
    assert (await api.get("/openid/v1/jwks"))["keys"]


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
@pytest.mark.parametrize(("peers", "part"), [(1_600, "etcdserver: request is too large"), (2_100, "larger than max")])
async def test_an_object_that_is_too_large_is_refused_itself(api: Api, peers: int, part: str) -> None:
    """Other objects can be written, so that no namespace waits for this one."""
    labels = {f"{'d' * 253}/{'k' * 62}{index}": "v" * 63 for index in range(3)}
    sources = [{"podSelector": {"matchLabels": {**labels, "app": f"a-{number}"}}} for number in range(peers)]
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "large"}}
    spec = {"podSelector": {}, "ingress": [{"from": sources}]}
    with pytest.raises(ApiError, match=part) as error:
        await api.apply("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/large", {**policy, "spec": spec})
    assert error.value.status == 500
    assert is_refusal(error.value)


@pytest.mark.parametrize("text", ["etcdserver: request timed out", "etcdserver: leader changed"])
def test_a_fault_of_etcd_is_no_refusal(text: str) -> None:
    assert not is_refusal(ApiError(500, "InternalError", text))
