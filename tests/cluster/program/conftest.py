"""An API server that has the kinds `Program` and `Injection`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.chart import definitions

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def true_conditions(document: dict[str, Any]) -> set[str]:
    conditions = document.get("status", {}).get("conditions") or ()
    return {each["type"] for each in conditions if each["status"] == "True"}


@pytest.fixture(scope="session")
def programs_api(cluster_api: ApiServer) -> ApiServer:
    deadline = time.monotonic() + 30
    for wanted in definitions():
        name = wanted["metadata"]["name"]
        made = cluster_api.apply(f"{DEFINITIONS}/{name}", wanted)
        while not {"Established", "NamesAccepted"} <= true_conditions(made):
            assert time.monotonic() < deadline, made["status"]
            time.sleep(0.1)
            made = cluster_api.request("GET", f"{DEFINITIONS}/{name}")
        assert "NonStructuralSchema" not in true_conditions(made)
    return cluster_api
