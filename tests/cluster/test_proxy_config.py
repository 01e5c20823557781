"""The ConfigMap of proxies in each namespace that takes part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.follow import Cluster
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.proxy_config import ProxyConfig

OWNER = Owner("shop", "u-1")


class Api:
    def __init__(self, refuses: dict[str, ApiError]) -> None:
        self.refuses = refuses
        self.written: list[str] = []

    async def apply(self, path: str, body: dict[str, Any], *, force: bool = True, subresource: str = "") -> Any:
        namespace = path.split("/")[4]
        if namespace in self.refuses:
            raise self.refuses[namespace]
        self.written.append(namespace)
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}


def config(api: Api) -> ProxyConfig:
    cluster = SimpleNamespace(api=api, controller="main", taking_part=("a", "b", "c"))
    return ProxyConfig(cast("Cluster", cluster), ("localhost", 18000), lambda: "CERTIFICATE", ipv6=False)


async def test_a_namespace_that_refuses_it_does_not_stop_the_others() -> None:
    api = Api({"b": ApiError(403, "Forbidden", "the namespace b is being terminated")})
    made = config(api)
    with pytest.raises(ApiError, match="the namespace b is being terminated"):
        await made.write(OWNER)
    assert api.written == ["a", "c"]
    api.refuses.clear()
    await made.write(OWNER)
    assert api.written == ["a", "c", "b"]


async def test_an_api_server_that_is_away_is_asked_once() -> None:
    api = Api({"a": ApiError(0, "Connection", "no route")})
    with pytest.raises(ApiError, match="no route"):
        await config(api).write(OWNER)
    assert api.written == []


async def test_another_authority_is_everywhere_once_every_namespace_has_it() -> None:
    api, authority = Api({}), "one"
    cluster = SimpleNamespace(api=api, controller="main", taking_part=("a", "b"))
    made = ProxyConfig(cast("Cluster", cluster), ("localhost", 18000), lambda: authority, ipv6=False)
    assert made.everywhere == ""
    await made.write(OWNER)
    assert made.everywhere == "one"
    await made.write(OWNER)
    assert api.written == ["a", "b"]
    authority = "two"
    api.refuses["a"] = ApiError(403, "Forbidden", "no")
    with pytest.raises(ApiError):
        await made.write(OWNER)
    assert made.everywhere == ""
    api.refuses.clear()
    cluster.taking_part = ("a", "b", "c")
    await made.write(OWNER)
    assert api.written == ["a", "b", "b", "a", "c"]
    assert made.everywhere == "two"
