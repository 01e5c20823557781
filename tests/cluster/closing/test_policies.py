"""When a destination counts as closed: the wait, what begins it anew, and other policies. The API server is in
`test_real_policies.py`; here is a store in its place, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.closing.policies import CLOSED_SECONDS, ClusterClosing, NetworkPolicy, network_policy
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.records import Key
from admc.kubernetes.cluster.retry_loop import ChangedKeys
from tests.emitters.interception.build import closed_at, port, program, service, wholly_closed

if TYPE_CHECKING:
    from admc.serve.environment import Closing

KEY = Key("default", "admc-close-db")
PROGRAM = program(
    [service("db", port(80, 8080)), service("a"), service("b"), service("cache")],
    [("a", "db"), ("b", "db"), ("a", "cache")],
)
SELECTORS = {"db": {"app": "db"}, "a": {"app": "a"}, "b": {"app": "b"}, "cache": {"app": "cache"}}


class Store:
    """The policies of a cluster, whose changes are seen at once."""

    def __init__(self) -> None:
        self.now = 100.0
        self.found: dict[Key, NetworkPolicy] = {}
        self.writes: list[str] = []
        self.numbers = 0
        self.refuses: ApiError | None = None
        self.refused = ""
        """The name of the only object that is refused; empty: all are."""
        self.selectors: dict[str, dict[str, str]] = dict(SELECTORS)
        self.closing = self.started()

    def started(self) -> ClusterClosing:
        return ClusterClosing(
            self,
            "main",
            lambda: Owner("shop", "u-1"),
            self.found,
            lambda: self.selectors,
            shown=ChangedKeys(lambda: self.now),
        )

    def _refuse(self, name: str) -> None:
        if self.refuses is not None and self.refused in ("", name):
            raise self.refuses

    async def apply(self, path: str, body: Mapping[str, Any], *, force: bool = True, subresource: str = "") -> Any:
        name = path.rpartition("/")[2]
        self.writes.append(f"apply {name}")
        self._refuse(name)
        self.put(body)
        return body

    async def delete(self, path: str, *, uid: str | None = None) -> Any:
        namespace, _, name = path.removeprefix("/apis/networking.k8s.io/v1/namespaces/").split("/")
        self.writes.append(f"delete {name}")
        self._refuse(name)
        assert self.found[Key(namespace, name)].uid == uid
        self.remove(Key(namespace, name))

    def put(self, document: Mapping[str, Any]) -> None:
        self.numbers += 1
        metadata = document["metadata"]
        old = self.found.get(Key(metadata["namespace"], metadata["name"]))
        uid = old.uid if old else f"u-{self.numbers}"
        new = network_policy(
            {**document, "metadata": {"labels": {}, **metadata, "uid": uid, "generation": self.numbers}}
        )
        self.found[new.key] = new
        self.closing.shown.note(new.key)

    def remove(self, key: Key) -> None:
        del self.found[key]
        self.closing.shown.note(key)

    def passed(self, seconds: float) -> bool:
        self.now += seconds
        return self.closing.is_closed("db")


def other(**rule: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "default", "name": "monitoring"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]},
    }


@pytest.fixture
async def store() -> Store:
    found = Store()
    found.closing.ask(wholly_closed(PROGRAM, "db"))
    await found.closing.refresh()
    return found


async def test_a_destination_is_closed_some_time_after_its_policy_was_seen(store: Store) -> None:
    policy = store.found[KEY]
    assert (policy.controller, policy.owners) == ("main", ("u-1",))
    assert store.closing.missing(["db", "cache"]) == ("cache", "db")
    assert not store.passed(CLOSED_SECONDS - 0.1)
    assert store.passed(0.1)
    assert store.closing.missing(["db", "cache"]) == ("cache",)


def test_it_is_what_the_server_asks_for(store: Store) -> None:
    closing: Closing = store.closing
    assert closing.missing([]) == ()


async def test_nothing_is_written_where_nothing_differs(store: Store) -> None:
    store.closing.ask(wholly_closed(PROGRAM, "db"))
    await store.closing.refresh()
    assert store.writes == ["apply admc-close-db"]


async def test_a_restart_begins_the_wait_anew(store: Store) -> None:
    assert store.passed(CLOSED_SECONDS)
    store.closing = store.started()
    store.closing.ask(wholly_closed(PROGRAM, "db"))
    for key in store.found:
        store.closing.shown.note(key)
    await store.closing.refresh()
    assert not store.passed(CLOSED_SECONDS - 0.1)
    assert store.passed(0.1)
    assert store.writes == ["apply admc-close-db"]


@pytest.mark.parametrize("how", ["removed", "changed"])
async def test_one_that_a_hand_removes_or_changes_is_written_again_and_the_wait_begins_anew(
    store: Store, how: str
) -> None:
    assert store.passed(CLOSED_SECONDS)
    store.closing.pending.clear()
    if how == "removed":
        store.remove(KEY)
    else:
        store.put({**other(), "metadata": {"namespace": "default", "name": KEY.name, "labels": {CONTROLLER: "main"}}})
    assert store.closing.pending.is_set()
    assert not store.passed(CLOSED_SECONDS)
    await store.closing.refresh()
    assert store.writes == ["apply admc-close-db"] * 2
    assert not store.passed(CLOSED_SECONDS - 0.1)
    assert store.passed(0.1)


async def test_one_that_was_removed_and_is_there_again_before_anything_looks_begins_the_wait_anew(store: Store) -> None:
    assert store.passed(CLOSED_SECONDS)
    before = store.found[KEY]
    store.found[KEY] = before._replace(uid="u-2")
    store.closing.shown.note(KEY)
    assert not store.passed(CLOSED_SECONDS - 0.1)
    assert store.passed(0.1)


async def test_another_policy_that_admits_more_keeps_it_open_and_is_named(store: Store) -> None:
    assert store.passed(CLOSED_SECONDS)
    store.put(other(ports=[{"port": 8080}]))
    assert not store.passed(CLOSED_SECONDS)
    (finding,) = store.closing.findings
    assert finding.code == "ADM937"
    assert "`default/monitoring`" in finding.message
    store.put(other(ports=[{"port": 9100}]))
    assert store.passed(0)
    assert store.closing.findings == ()


async def test_a_port_that_is_closed_as_well_begins_the_wait_anew() -> None:
    made = program([service("db", port(80, 8080), port(90, 9090, name="admin")), service("a")], [("a", "db")])
    store = Store()
    store.closing.ask({"db": closed_at(made, "db", 8080)})
    await store.closing.refresh()
    assert store.passed(CLOSED_SECONDS)
    store.put(other(ports=[{"port": 9090}]))
    assert store.passed(0), "a port of the program that is open to every caller"
    store.closing.ask({"db": closed_at(made, "db", 8080, 9090)})
    assert not store.closing.is_closed("db")
    await store.closing.refresh()
    assert not store.passed(CLOSED_SECONDS), "now the other policy admits more"
    assert [finding.code for finding in store.closing.findings] == ["ADM937"]
    store.remove(Key("default", "monitoring"))
    assert store.passed(CLOSED_SECONDS)
    store.closing.ask({"db": closed_at(made, "db", 9090)})
    await store.closing.refresh()
    assert not store.passed(CLOSED_SECONDS - 0.1)
    assert store.passed(0.1)


async def test_one_of_our_own_that_is_altered_is_like_any_other_until_it_is_written_again(store: Store) -> None:
    store.closing.ask(wholly_closed(PROGRAM, "db", "cache"))
    await store.closing.refresh()
    assert store.passed(CLOSED_SECONDS)
    cache = store.found[Key("default", "admc-close-cache")]
    altered = {
        **other(),
        "metadata": {"namespace": "default", "name": "admc-close-cache", "labels": {CONTROLLER: "main"}},
    }
    store.put(altered)
    assert not store.closing.is_closed("db")
    assert [(each.code, "admc-close-cache" in each.message) for each in store.closing.findings] == [("ADM937", True)]
    await store.closing.refresh()
    assert store.found[cache.key].spec == cache.spec
    assert store.closing.is_closed("db")
    assert store.closing.findings == ()


async def test_selectors_of_the_cluster_say_which_pods_are_admitted(store: Store) -> None:
    def admitted() -> list[Any]:
        return [peer["podSelector"]["matchLabels"] for peer in store.found[KEY].spec["ingress"][0]["from"]]

    assert admitted() == [{"app": "a"}, {"app": "b"}]
    assert store.passed(CLOSED_SECONDS)
    store.selectors = {**SELECTORS, "a": {"app.kubernetes.io/name": "first"}}
    del store.selectors["b"]
    store.closing.plan()
    await store.closing.refresh()
    assert admitted() == [{"app.kubernetes.io/name": "first"}]
    assert not store.passed(CLOSED_SECONDS - 0.1)
    assert store.passed(0.1)


@pytest.mark.parametrize("name", ["db", "a"])
async def test_a_service_without_a_selector_leaves_the_destination_open(store: Store, name: str) -> None:
    store.selectors[name] = {}
    store.closing.plan()
    await store.closing.refresh()
    assert [finding.code for finding in store.closing.findings] == ["ADM783"]
    assert not store.passed(CLOSED_SECONDS)
    assert KEY in store.found, "without it the destination would be open"


async def test_what_no_plan_needs_is_removed_and_nothing_else(store: Store) -> None:
    store.put(other())
    for name, controller in (("admc-close-x", "main"), ("admc-close-y", "two"), ("x", "main")):
        metadata = {"namespace": "default", "name": name, "labels": {CONTROLLER: controller}}
        store.put({**other(), "metadata": metadata})
    store.closing = store.started()
    await store.closing.refresh()
    assert len(store.found) == 5, "nothing is removed before the server has said what is needed"
    store.closing.ask(wholly_closed(PROGRAM, "cache"))
    await store.closing.refresh()
    assert {key.name for key in store.found} == {"admc-close-cache", "monitoring", "admc-close-y", "x"}


async def test_the_policy_of_another_installation_is_not_overwritten() -> None:
    store = Store()
    store.put({**other(), "metadata": {"namespace": "default", "name": KEY.name, "labels": {CONTROLLER: "two"}}})
    store.closing.ask(wholly_closed(PROGRAM, "db"))
    await store.closing.refresh()
    assert store.writes == []
    assert [finding.code for finding in store.closing.findings] == ["ADM936"]
    assert not store.passed(CLOSED_SECONDS)


async def test_names_that_become_one_leave_one_destination_open() -> None:
    store = Store()
    made = program([service("a_b"), service("a-b")], [])
    store.selectors = {"a_b": {"app": "x"}, "a-b": {"app": "y"}}
    store.closing.ask(wholly_closed(made, "a_b", "a-b"))
    assert [finding.code for finding in store.closing.findings] == ["ADM781"]


async def test_labels_that_select_another_services_pods_leave_it_open(store: Store) -> None:
    store.selectors["cache"] = {"app": "db", "tier": "cache"}
    store.closing.plan()
    assert [finding.code for finding in store.closing.findings] == ["ADM784"]
    assert not store.passed(CLOSED_SECONDS)


async def test_nothing_is_applied_twice_before_the_watch_shows_it(store: Store) -> None:
    put, store.put = store.put, lambda document: None  # type: ignore[method-assign]
    store.closing.ask(wholly_closed(PROGRAM, "db", "cache"))
    await store.closing.refresh()
    await store.closing.refresh()
    assert store.writes == ["apply admc-close-db", "apply admc-close-cache"]
    store.closing.ask(wholly_closed(program([service("cache")], []), "cache"))
    await store.closing.refresh()
    assert store.writes[2:] == ["apply admc-close-cache", "delete admc-close-db"], "another one is applied at once"
    put(store.closing._sent[Key("default", "admc-close-cache")])
    await store.closing.refresh()
    assert len(store.writes) == 4


async def test_selectors_that_change_are_compared_anew(store: Store) -> None:
    senders = {"from": [{"podSelector": {"matchLabels": {"app": "a"}}}], "ports": [{"port": 8080}]}
    store.put(other(**senders))
    assert store.passed(CLOSED_SECONDS)
    assert store.closing.findings == ()
    store.selectors["a"] = {"app": "first"}
    store.closing.plan()
    await store.closing.refresh()
    assert not store.passed(CLOSED_SECONDS)
    assert [finding.code for finding in store.closing.findings] == ["ADM937"]


async def test_there_is_something_to_do_after_a_question_and_after_a_fault(store: Store) -> None:
    assert store.closing.pending.is_set(), "the watch has shown the policy"
    await store.closing.refresh()
    assert not store.closing.pending.is_set()
    store.closing.ask(wholly_closed(PROGRAM, "cache"))
    assert store.closing.pending.is_set()
    store.refuses = ApiError(500, "InternalError", "etcd is away")
    with pytest.raises(ApiError):
        await store.closing.refresh()
    assert store.closing.pending.is_set()


@pytest.mark.parametrize("status", [404, 409])
async def test_one_that_is_gone_already_is_removed(store: Store, status: int) -> None:
    store.closing.ask({})
    store.refuses = ApiError(status, "Conflict", "gone")
    await store.closing.refresh()
    assert store.writes[-1] == "delete admc-close-db"
    store.refuses = ApiError(403, "Forbidden", "no")
    with pytest.raises(ApiError):
        await store.closing.refresh()


async def test_one_that_is_refused_is_named_and_does_not_stop_the_others() -> None:
    store = Store()
    store.put({**other(), "metadata": {"namespace": "default", "name": "admc-close-x", "labels": {CONTROLLER: "main"}}})
    store.refuses = ApiError(403, "Forbidden", "cannot patch networkpolicies in the namespace default")
    store.refused = "admc-close-cache"
    store.closing.ask(wholly_closed(PROGRAM, "cache", "db"))
    with pytest.raises(ApiError, match="cannot patch"):
        await store.closing.refresh()
    assert store.writes == ["apply admc-close-cache", "apply admc-close-db", "delete admc-close-x"]
    assert store.closing.pending.is_set()
    (item,) = store.closing.findings
    assert item.code == "ADM935"
    assert item.message == "`cache` is not closed: the NetworkPolicy `default/admc-close-cache` cannot be written"
    assert "cannot patch networkpolicies" in str(item.cause)
    store.refuses = None
    await store.closing.refresh()
    assert store.closing.findings == ()


async def test_an_api_server_that_is_away_is_not_asked_for_each_policy() -> None:
    store = Store()
    store.refuses = ApiError(0, "Connection", "no route")
    store.closing.ask(wholly_closed(PROGRAM, "cache", "db"))
    with pytest.raises(ApiError, match="no route"):
        await store.closing.refresh()
    assert store.writes == ["apply admc-close-cache"]
    assert store.closing.findings == ()


async def test_an_equal_policy_of_another_installation_closes_nothing(store: Store) -> None:
    assert store.passed(CLOSED_SECONDS)
    store.found[KEY] = store.found[KEY]._replace(controller="two")
    assert not store.passed(CLOSED_SECONDS)


async def test_a_policy_that_is_being_deleted_closes_nothing(store: Store) -> None:
    assert store.passed(CLOSED_SECONDS)
    store.found[KEY] = store.found[KEY]._replace(is_going=True)
    assert not store.passed(CLOSED_SECONDS)


@pytest.mark.parametrize("change", [{"controller": ""}, {"owners": ()}, {"owners": ("u-0",)}])
async def test_label_and_owner_are_written_again_without_a_wait(store: Store, change: Any) -> None:
    assert store.passed(CLOSED_SECONDS)
    before = store.found[KEY]
    store.found[KEY] = before._replace(**change)
    store.closing.shown.note(KEY)
    assert store.passed(0)
    await store.closing.refresh()
    assert store.writes == ["apply admc-close-db"] * 2
    assert (store.found[KEY].controller, store.found[KEY].owners) == ("main", ("u-1",))


async def test_a_few_of_many_other_policies_are_named(store: Store) -> None:
    for number in range(5):
        store.put({**other(), "metadata": {"namespace": "default", "name": f"other-{number}"}})
    (finding,) = store.closing.findings
    assert "NetworkPolicies `default/other-0`, `default/other-1`, `default/other-2` and 2 more may" in finding.message


async def test_a_replica_that_does_not_serve_writes_nothing(store: Store) -> None:
    """It would remove what the one that serves has written."""
    active = False
    store.closing.may_write = lambda: active
    store.closing.ask(wholly_closed(PROGRAM, "cache"))
    await store.closing.refresh()
    assert store.writes == ["apply admc-close-db"]
    assert store.closing.pending.is_set()
    active = True
    await store.closing.refresh()
    assert store.writes[1:] == ["apply admc-close-cache", "delete admc-close-db"]


async def test_one_that_stops_serving_writes_nothing_more(store: Store) -> None:
    left = 1

    def may_write() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    store.closing.may_write = may_write
    store.closing.ask(wholly_closed(PROGRAM, "cache"))
    await store.closing.refresh()
    assert store.writes[1:] == ["apply admc-close-cache"]
    assert store.closing.pending.is_set()


async def test_a_replica_that_comes_to_serve_writes_what_is_due(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.closing.policies.LOOK_SECONDS", 0.01)
    active = False
    store.closing.may_write = lambda: active
    task = asyncio.create_task(store.closing.run())
    store.closing.ask(wholly_closed(PROGRAM, "cache"))
    await asyncio.sleep(0.05)
    assert len(store.writes) == 1
    active = True
    async with asyncio.timeout(10):
        while len(store.writes) < 3:
            await asyncio.sleep(0.01)
    task.cancel()


async def test_nothing_is_planned_anew_for_the_same_selectors(store: Store) -> None:
    before = store.closing._needed
    store.closing.plan()
    assert store.closing._needed is before
    assert store.closing.pending.is_set(), "the owner may be another one"
    store.selectors["unknown"] = {"app": "other"}
    store.closing.plan()
    assert store.closing._needed is not before
