"""Tokens that a Kubernetes API server makes for pods, with its keys and its objects."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster import decode
from admc.kubernetes.cluster.identity.keys import PATH
from admc.kubernetes.inject.recognised import Recognition
from admc.serve.auth.tokens import BoundPod
from tests.cluster.identity.cluster import AUDIENCE, PROGRAM, Cluster, caller
from xds_server.transport.client import DeniedError, NotYetError

if TYPE_CHECKING:
    from admc.kubernetes.cluster.records import Pod
    from tests.cluster.api_server import ApiServer

_NAMES = itertools.count(1)


class Real(Cluster):
    """Pods and Services of an API server, in a namespace of their own."""

    def __init__(self, api: ApiServer) -> None:
        super().__init__()
        self.api = api
        self.namespace = f"identity-{next(_NAMES)}"
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self._post("serviceaccounts", {"metadata": {"name": "shared"}})

    async def fetch(self) -> bytes:
        self.requests += 1
        found = self.api.request("GET", PATH)
        return (found if isinstance(found, str) else json.dumps(found)).encode()

    def _post(self, kind: str, body: dict[str, Any]) -> Any:
        return self.api.request("POST", f"/api/v1/namespaces/{self.namespace}/{kind}", body)

    def make_pod(self, name: str, service: str) -> dict[str, Any]:
        spec = {"serviceAccountName": "shared", "containers": [{"name": "app", "image": "example"}]}
        made: dict[str, Any] = self._post(
            "pods", {"metadata": {"name": name, "labels": {"app": service}}, "spec": spec}
        )
        return made

    def delete_pod(self, name: str) -> None:
        options = {"gracePeriodSeconds": 0}
        self.api.request("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{name}", options)

    def make_service(self, name: str) -> None:
        spec = {"selector": {"app": name}, "ports": [{"port": 9000}]}
        found = decode.service(self._post("services", {"metadata": {"name": name}, "spec": spec}))
        assert found is not None
        self.services(found)

    def record(self, item: dict[str, Any]) -> Pod:
        found = decode.PodDecoder(lambda _: Recognition())(item)
        assert found is not None
        return found

    def token(self, item: dict[str, Any] | None, audience: str = AUDIENCE) -> str:
        spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 3600}
        if item is not None:
            bound = {name: item["metadata"][name] for name in ("name", "uid")}
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", **bound}
        answer = self._post("serviceaccounts/shared/token", {"spec": spec})
        return str(answer["status"]["token"])


@pytest.fixture
async def real(cluster_api: ApiServer) -> Real:
    made = Real(cluster_api)
    made.follow(PROGRAM.replace("shop }", f"{made.namespace} }}"))
    await made.with_keys()
    made.make_service("rate")
    made.make_service("search")
    return made


def denied(real: Real, bearer: str) -> DeniedError:
    with pytest.raises(DeniedError) as caught:
        real.identifier.identify(caller(bearer))
    return caught.value


async def test_a_token_of_a_pod(real: Real) -> None:
    item = real.make_pod("rate-1", "rate")
    bearer = real.token(item)
    claims = real.keys.verify(bearer)
    assert claims.pod == BoundPod(real.namespace, "rate-1", item["metadata"]["uid"])
    early = denied(real, bearer)
    assert isinstance(early, NotYetError)  # the watch has not shown it
    real.pod(None, real.record(item))
    found = real.identifier.identify(caller(bearer, claims="search"))
    assert (found.group, found.node) == ("rate", "rate-1")
    assert found.identity == f"pod {real.namespace}/rate-1"
    assert real.requests == 1


async def test_tokens_that_are_refused(real: Real) -> None:
    item = real.make_pod("rate-1", "rate")
    real.pod(None, real.record(item))
    assert "another audience" in str(denied(real, real.token(item, "admc.dev/other")))
    assert "made for no pod" in str(denied(real, real.token(None)))
    # A token of another pod, with the same account, is that other pod.
    other = real.make_pod("search-1", "search")
    real.pod(None, real.record(other))
    assert real.identifier.identify(caller(real.token(other), claims="rate")).group == "search"


async def test_a_pod_that_is_gone_and_the_next_one_with_its_name(real: Real) -> None:
    item = real.make_pod("rate-0", "rate")
    bearer = real.token(item)
    real.pod(None, real.record(item))
    assert real.identifier.identify(caller(bearer)).node == "rate-0"
    real.delete_pod("rate-0")
    later = real.make_pod("rate-0", "rate")
    fresh = real.token(later)
    # The new pod is there before the watch shows it, and the old one after it is gone.
    assert isinstance(denied(real, fresh), NotYetError)
    real.pod(real.record(item), real.record(later))
    assert denied(real, bearer).reason == "gone"
    assert real.identifier.identify(caller(fresh)).node == "rate-0"
