"""Pods that kwok plays have addresses, are ready, and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.many import many_pods, pod
from tests.cluster.tools import MissingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.api_server import ApiServer

PODS = "/api/v1/namespaces/default/pods"


def test_pods_come_and_go(new_cluster_api: Callable[..., ApiServer]) -> None:
    server = new_cluster_api()
    try:
        with many_pods(server, nodes=2) as pods:
            pods.create(PODS, [pod(f"p{number}", "default", number, {"app": "a"}, nodes=2) for number in range(50)])
            pods.wait("default", 50)
            found = server.request("GET", PODS)["items"]
            assert len({each["status"]["podIP"] for each in found}) == 50
            assert {each["spec"]["nodeName"] for each in found} == {"many-0", "many-1"}
            pods.delete(f"{PODS}/p{number}" for number in range(20))
            assert pods.count_ready("default") == 30
    except MissingError as error:
        pytest.skip(str(error))
