"""The NetworkPolicies of closed destinations, with a real API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.watched import Watched
from admc.kubernetes.cluster.closing.policies import ClusterClosing, NetworkPolicy, network_policy
from admc.kubernetes.cluster.names import CONTROLLER, FIELD_MANAGER
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.retry_loop import ChangedKeys
from tests.emitters.interception.build import external, port, program, service, wholly_closed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.cluster.api_server import ApiServer

SECONDS = 20.0
WAIT = 0.5
NAMESPACE = "closing"
POLICIES = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
SELECTORS = {"db": {"app": "db"}, "a": {"app": "a"}, "alone": {"app": "alone"}}
PROGRAM = program(
    [
        service("db", port(80, 8080), port(90, 9090, name="admin"), namespace=NAMESPACE),
        service("a", namespace="other"),
        service("alone", namespace=NAMESPACE),
        external("office", cidrs=["10.0.0.0/8", "fd00::/8"]),
    ],
    [("a", "db"), ("a", "db", 90), ("office", "db", 90)],
)


@asynccontextmanager
async def closing_of(server: ApiServer) -> AsyncIterator[ClusterClosing]:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    server.apply(f"/api/v1/namespaces/{NAMESPACE}", body)
    async with await connect(server.kubeconfig) as api:
        shown = ChangedKeys()
        watched: Watched[NetworkPolicy] = Watched(api, POLICIES, network_policy, changed=shown.note)
        owner = Owner("shop", "00000000-0000-0000-0000-000000000001")
        closing = ClusterClosing(
            api, "main", lambda: owner, watched.items, lambda: SELECTORS, seconds=WAIT, shown=shown
        )
        tasks = [asyncio.create_task(watched.run()), asyncio.create_task(closing.run())]
        try:
            await watched.synced.wait()
            yield closing
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_so():
            await asyncio.sleep(0.02)


def applied(server: ApiServer, name: str, spec: Any, **metadata: Any) -> None:
    body = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, **metadata}}
    server.apply(f"{POLICIES}/{name}", {**body, "spec": spec})


async def test_policies_are_written_once_kept_up_and_removed(cluster_api: ApiServer) -> None:
    async with closing_of(cluster_api) as closing:
        closing.ask(wholly_closed(PROGRAM, "db", "alone"))
        assert closing.missing(["alone", "db"]) == ("alone", "db")
        await until(lambda: not closing.missing(["alone", "db"]))
        written = {each["metadata"]["name"]: each for each in cluster_api.request("GET", POLICIES)["items"]}
        assert sorted(written) == ["admc-close-alone", "admc-close-db"]
        own = written["admc-close-db"]["metadata"]
        assert own["labels"][CONTROLLER] == "main"
        assert own["ownerReferences"][0]["kind"] == "Program"
        assert [each["manager"] for each in own["managedFields"]] == [FIELD_MANAGER]
        assert [rule.keys() for rule in written["admc-close-alone"]["spec"]["ingress"]] == [{"ports"}]

        await asyncio.sleep(WAIT)
        again = {each["metadata"]["name"]: each for each in cluster_api.request("GET", POLICIES)["items"]}
        assert again == written, "nothing is written where nothing differs"

        cluster_api.request("DELETE", f"{POLICIES}/admc-close-db")
        await until(lambda: closing.missing(["db"]) == ("db",))
        await until(lambda: not closing.missing(["db"]))
        applied(cluster_api, "admc-close-alone", {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]})
        await until(lambda: closing.missing(["alone"]) == ("alone",))
        await until(lambda: not closing.missing(["alone"]))

        closing.ask(wholly_closed(PROGRAM, "alone"))
        await until(lambda: not any(key.name == "admc-close-db" for key in closing.in_cluster))
        assert closing.missing(["alone", "db"]) == ("db",)
        closing.ask({})
        await until(lambda: not closing.in_cluster)


async def test_another_policy_of_the_cluster_keeps_a_destination_open(cluster_api: ApiServer) -> None:
    rules = {
        "podSelector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 8000, "endPort": 9000}]}],
    }
    async with closing_of(cluster_api) as closing:
        closing.ask(wholly_closed(PROGRAM, "db"))
        await until(lambda: not closing.missing(["db"]))
        applied(cluster_api, "monitoring", rules)
        await until(lambda: closing.missing(["db"]) == ("db",))
        (finding,) = closing.findings
        assert f"the NetworkPolicy `{NAMESPACE}/monitoring`" in finding.message
        apart = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}
        applied(cluster_api, "monitoring", {**rules, "podSelector": apart})
        await until(lambda: not closing.missing(["db"]))
        assert closing.findings == ()
        cluster_api.request("DELETE", f"{POLICIES}/monitoring")
        closing.ask({})
        await until(lambda: not closing.in_cluster)
