"""The kept state comes back from Secrets, survives a fault at every request, and is never written by two servers."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from admc.base.exits import CommandError
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.storage.record import INDEX, PART, WRITER, Names, decode
from admc.serve.rollout.model import StepName
from admc.serve.storage.position import Recipe
from tests.cluster.memory_api import MemoryApi
from tests.cluster.storage.secrets_of import POSITION, RECIPE, Replica, index_of, moving, replica, snapshot, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

NAMES = Names("mesh", "admc")
STATE = f"{NAMES.collection}/{NAMES.state}"
MARKER = f"{NAMES.collection}/{NAMES.under_way}"
GROUPS = {"a": snapshot("x", "y"), "b": snapshot("z")}


def parts_of(api: MemoryApi) -> list[str]:
    return [name for name in api.objects if "-part-" in name]


async def stored(api: MemoryApi, position: Any = POSITION, groups: Any = None, *refusing: str) -> Replica:
    server = replica(api)
    assert await server.load() is None
    await server.store(position, groups, *refusing)
    return server


async def test_the_stored_state_is_read_back_by_another_server() -> None:
    api = MemoryApi()
    await stored(api, moving("a", frozen=("b",)), GROUPS)
    found = await replica(api, "two").load()
    assert found.position.rollout == moving("a").rollout
    assert found.position.plans == moving("a").plans
    assert versions(found.position.frozen) == {"b": snapshot("old-b").version}
    assert found.problems == ()
    assert versions(found.groups) == {"a": GROUPS["a"].version}
    assert all(api.objects[part]["immutable"] for part in parts_of(api))


async def test_snapshots_are_kept_only_of_services_in_a_transition_or_that_refuse() -> None:
    api = MemoryApi()
    server = await stored(api, POSITION, GROUPS)
    assert (await replica(api, "two").load()).groups == {}
    server = replica(api)
    await server.load()
    await server.store(POSITION, GROUPS, "b")
    assert list((await replica(api, "two").load()).groups) == ["b"]


async def test_addresses_are_not_kept_and_their_changes_write_nothing() -> None:
    api = MemoryApi()
    server = await stored(api)
    api.requests.clear()
    for number in range(5):
        recipe = RECIPE._replace(endpoints=str(number).encode())
        server.clock += 60
        assert not await server.save(POSITION._replace(plans={"plan": recipe}))
    assert not api.requests
    assert (await replica(api, "two").load()).position == POSITION


async def test_acknowledgements_are_stored_at_intervals_and_steps_at_once() -> None:
    api = MemoryApi()
    server = await stored(api, moving("a", "b"), {"a": GROUPS["a"]})
    assert not await server.save(moving("a", "b"), GROUPS)
    server.clock += 5
    assert await server.save(moving("a", "b"), GROUPS)
    await server.store(moving("a", "b", step=StepName.SENDERS), GROUPS)
    found = await replica(api, "two").load()
    assert found.position.rollout.now.step is StepName.SENDERS
    assert versions(found.groups) == versions(GROUPS)


async def test_a_step_costs_few_requests() -> None:
    api = MemoryApi()
    server = await stored(api, moving("a"), GROUPS)
    api.requests.clear()
    await server.store(moving("a", step=StepName.SENDERS), GROUPS)
    assert api.requests == {"create": 1, "replace": 1}


async def test_parts_that_nothing_names_are_removed_also_those_of_a_killed_server() -> None:
    api = MemoryApi()
    server = await stored(api)
    orphan = NAMES.secret(NAMES.part("0" * 64), {PART: b"of a server that was killed"}, immutable=True)
    await api.create(NAMES.collection, orphan)
    foreign = NAMES.secret("admc-mesh-certificate", {}, "")
    await api.create(NAMES.collection, foreign)
    for number in range(40):
        services = tuple(f"s{each}" for each in range(number % 3 + 1))
        await server.store(moving(*services), {name: snapshot(f"{name}{number}") for name in services})
    named = {part for pack in index_of(api.objects[STATE])["packs"] for part in pack["parts"]}
    assert {name.rpartition("-")[2] for name in parts_of(api)} == named | {"0" * 64}
    server = replica(api, "two")
    await server.load()
    await server.store(POSITION)
    assert {name.rpartition("-")[2] for name in parts_of(api)} == {
        part for pack in index_of(api.objects[STATE])["packs"] for part in pack["parts"]
    }
    assert f"{NAMES.collection}/admc-mesh-certificate" in api.objects


async def test_many_small_writes_are_gathered_into_few_packs() -> None:
    api = MemoryApi()
    server = await stored(api)
    services = [f"s{number}" for number in range(60)]
    for number in range(1, 61):
        await server.store(moving(*services), {name: snapshot(name) for name in services[:number]})
        assert len(index_of(api.objects[STATE])["packs"]) <= 17
    assert len((await replica(api, "two").load()).groups) == 60


# ---- the fence ----


async def test_an_earlier_server_that_goes_on_stores_nothing_once_another_has_claimed_the_state() -> None:
    api = MemoryApi()
    old = await stored(api, moving("a"))
    new = replica(api, "two")
    await new.load()
    claimed = api.objects[STATE]
    with pytest.raises(CommandError) as caught:
        await old.store(moving("a", step=StepName.SENDERS))
    assert caught.value.diagnostics[0].cause == "the Secret `admc-mesh-state` was written by another server, `two`"
    assert old.superseded == ["the Secret `admc-mesh-state` was written by another server, `two`"]
    assert api.objects[STATE] == claimed
    await new.store(moving("a", step=StepName.SENDERS))
    assert not new.superseded


async def test_a_claim_finds_what_was_stored_up_to_it() -> None:
    """The earlier server stores a step between the read of the claim and its write."""
    api = MemoryApi()
    old = await stored(api, moving("a"))
    new = replica(api, "two")
    stepped = moving("a", step=StepName.SENDERS)

    class Between(MemoryApi):
        async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            if body["metadata"]["annotations"][WRITER] == "two" and not done:
                done.append(path)
                await old.store(stepped)
            return await super().replace(path, body)

    done: list[str] = []
    between = Between()
    between.objects, between._version = api.objects, 1000
    new = replica(between, "two")
    found = await new.load()
    assert done
    assert found.position.rollout == stepped.rollout
    assert not old.superseded


async def test_the_first_of_two_that_begin_anew_is_not_overwritten() -> None:
    api = MemoryApi()
    one, two = replica(api, "one"), replica(api, "two")
    await one.load()
    await two.load()
    with pytest.raises(CommandError):
        await one.store(POSITION)
    assert one.superseded
    await two.store(POSITION)
    assert not two.superseded


async def test_a_server_without_the_lease_sends_no_writing_request() -> None:
    api = MemoryApi()
    server = await stored(api)
    server.may_write = False
    api.requests.clear()
    with pytest.raises(CommandError) as caught:
        await server.store(moving("a"))
    assert caught.value.diagnostics[0].cause == "this replica does not hold the Lease at present"
    assert api.requests.keys() <= {"get"}
    server.may_write = True
    await server.store(moving("a"))
    assert not server.superseded


# ---- faults ----


def reader(api: MemoryApi) -> Replica:
    """A replica without faults of its own."""
    other = MemoryApi()
    other.objects = api.objects
    return replica(other, "reader")


async def error_of(storing: Coroutine[Any, Any, None]) -> CommandError | None:
    try:
        await storing
    except CommandError as error:
        return error
    return None


@pytest.mark.parametrize("lost", [False, True], ids=["before", "answer lost"])
@pytest.mark.parametrize("at", range(12))
async def test_a_fault_at_any_request_leaves_a_whole_state_and_the_next_attempt_succeeds(at: int, lost: bool) -> None:
    """From rest into a move, and back to rest at another plan: each has every kind of request."""
    api = MemoryApi()
    server = await stored(api, POSITION, GROUPS)
    count, seen = 0, set()

    def fail(verb: str, path: str) -> None:
        nonlocal count
        count += 1
        if count == at + 1:
            raise ApiError(0, "Connection", "cut")

    setattr(api, "after" if lost else "before", fail)
    for position in (moving("a", "b", frozen=("a",)), POSITION):
        for _ in range(3):
            failed = await error_of(server.store(position, GROUPS))
            if failed is None:
                break
            assert failed.diagnostics[0].code == "ADM854"
            api.before = api.after = lambda verb, path: None
            peeked = await reader(api).peek()
            seen.add(len(peeked.state.position.plans))
        else:
            pytest.fail("the third attempt failed, too")
        found = (await reader(api).peek()).state
        assert found.position.rollout == position.rollout
        assert found.problems == ()
        assert (MARKER in api.objects) or position is POSITION
    assert seen <= {1, 2}
    assert not server.superseded


# ---- what a hand, or another release, has changed ----


def edit(api: MemoryApi, path: str, change: Callable[[dict[str, Any]], object]) -> None:
    change(api.objects[path])
    api._version += 1
    api.objects[path]["metadata"]["resourceVersion"] = f"{api._version}"


def with_index(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    def changed(secret: dict[str, Any]) -> None:
        document = index_of(secret)
        change(document)
        secret["data"][INDEX] = base64.b64encode(json.dumps(document).encode()).decode()

    return changed


def _first_part(api: MemoryApi) -> str:
    return parts_of(api)[0]


DAMAGE: dict[str, tuple[Callable[[MemoryApi], object], str]] = {
    "newer": (lambda api: edit(api, STATE, with_index(lambda d: d.update(schema_version=9))), "schema version 9"),
    "cut short": (lambda api: edit(api, STATE, lambda s: s["data"].update({INDEX: "eyJ"})), "lacks `state.json`"),
    "no base 64": (lambda api: edit(api, STATE, lambda s: s["data"].update({INDEX: "%%"})), "lacks `state.json`"),
    "another key": (lambda api: edit(api, STATE, lambda s: s.update(data={"x": ""})), "lacks `state.json`"),
    "no manifest": (
        lambda api: edit(api, STATE, with_index(lambda d: d.update(manifest="0" * 64))),
        "a part of it is missing",
    ),
    "a part is gone": (lambda api: api.objects.pop(_first_part(api)), "is missing"),
    "a part was changed": (
        lambda api: edit(api, _first_part(api), lambda s: s["data"].update({PART: "AAAA"})),
        "is not what admc stored",
    ),
    "another length": (
        lambda api: edit(api, STATE, with_index(lambda d: d["packs"][0].update(length=10))),
        "larger than it says",
    ),
}


@pytest.mark.parametrize("under_way", [False, True])
@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_state_is_rejected_with_the_reason(name: str, under_way: bool) -> None:
    api = MemoryApi()
    await stored(api, moving("a") if under_way else POSITION, GROUPS)
    damage, words = DAMAGE[name]
    damage(api)
    server = replica(api, "two")
    with pytest.raises(CommandError) as caught:
        await server.load()
    (finding,) = caught.value.diagnostics
    assert finding.code == "ADM854"
    assert words in (finding.cause or "")
    assert server.storage.may_begin_anew is not under_way
    assert ("delete the Secrets" in (finding.hint or "")) is under_way
    # The next store writes a whole state.
    await server.store(moving("b"), GROUPS)
    assert (await replica(api, "three").load()).position == moving("b")


async def test_a_state_that_was_deleted_in_a_rollout_is_no_reason_to_begin_anew() -> None:
    api = MemoryApi()
    await stored(api, moving("a"))
    del api.objects[STATE]
    for writer in ("two", "three"):
        server = replica(api, writer)
        with pytest.raises(CommandError, match="cannot be used") as caught:
            await server.load()
        assert caught.value.diagnostics[0].cause == "there is none, though a rollout was under way"
        assert not server.storage.may_begin_anew
    del api.objects[MARKER]
    assert await replica(api, "four").load() is None


async def test_a_damaged_snapshot_affects_only_its_own_service_and_is_stored_again() -> None:
    api = MemoryApi()
    services = ("a", "b", "c")
    server = await stored(api, moving(*services), {"a": snapshot("a")})
    before = set(parts_of(api))
    await server.store(moving(*services), {name: snapshot(name) for name in "ab"})
    (with_b,) = set(parts_of(api)) - before
    groups = {name: snapshot(name) for name in services}
    await server.store(moving(*services), groups)
    api.objects[with_b]["data"][PART] = "AAAA"
    server = replica(api, "two")
    found = await server.load()
    assert set(found.groups) == {"a", "c"}
    assert found.problems == (f"`b`: its part `{with_b[-64:][:12]}…` is not what admc stored",)
    await server.store(moving(*services), groups)
    assert set((await replica(api, "three").load()).groups) == set(services)


async def test_secrets_that_are_removed_or_changed_while_they_are_used_are_written_again() -> None:
    api = MemoryApi()
    server = await stored(api, moving("a"), GROUPS)
    assert not await server.renew()
    damages: list[tuple[str, Callable[[], object]]] = [
        (_first_part(api), lambda: api.objects.pop(_first_part(api))),
        (STATE, lambda: edit(api, STATE, lambda s: s["data"].update({INDEX: "AAAA"}))),
        (STATE, lambda: api.objects.pop(STATE)),
    ]
    for name, damage in damages:
        damage()
        there = api.objects.get(name)
        server.storage.observed(name.rpartition("/")[2], None if there is None else decode(there))
        assert await server.renew()
        server.clock += 1
        assert await server.save(None)
        assert (await replica(api, "reader").peek()).state.position == moving("a")
        assert not await server.renew()
    # Its own writes are no changes.
    await server.store(moving("a", step=StepName.SENDERS), GROUPS)
    for name, secret in api.objects.items():
        server.storage.observed(name.rpartition("/")[2], decode(secret))
    assert not await server.renew()


async def test_a_claim_of_another_server_that_is_observed_ends_this_one_without_a_step() -> None:
    api = MemoryApi()
    server = await stored(api)
    await replica(api, "two").load()
    server.storage.observed(NAMES.state, decode(api.objects[STATE]))
    assert await server.renew()
    with pytest.raises(CommandError):
        await server.save(POSITION)
    assert server.superseded


async def test_an_edit_of_labels_by_hand_is_no_other_server() -> None:
    api = MemoryApi()
    server = await stored(api)
    edit(api, STATE, lambda s: s["metadata"]["labels"].update(team="a"))
    await server.store(moving("a"))
    assert not server.superseded


# ---- standing by ----


async def test_a_replica_that_stands_by_reads_only_what_has_changed() -> None:
    api = MemoryApi()
    active = await stored(api, moving("a"), GROUPS)
    standby = replica(api, "two")
    peeked = await standby.peek()
    assert peeked.state.position == moving("a")
    assert await standby.peek(peeked.version) is None
    await active.store(moving("a", step=StepName.SENDERS), GROUPS)
    api.requests.clear()
    again = await standby.peek(peeked.version)
    assert again.state.position.rollout.now.step is StepName.SENDERS
    assert api.requests == {"get": 3}  # the state, the marker and one part
    api.requests.clear()
    found = await standby.load()
    assert found.position == again.state.position
    assert api.requests == {"get": 2, "replace": 1}


async def test_a_part_that_is_removed_while_it_is_read_is_no_damage() -> None:
    api = MemoryApi()
    active = await stored(api, moving("a"), GROUPS)
    recipe = Recipe("policies.adm", "redirect", {"policies.adm": b"app other\n"}, b"[]", None)
    another = POSITION._replace(plans={"plan": recipe})
    moved: list[str] = []

    class Moving(MemoryApi):
        async def get(self, path: str, **params: object) -> dict[str, Any]:
            if "-part-" in path and not moved:
                moved.append(path)
                await active.store(another)
                assert path not in api.objects
            return await api.get(path, **params)

    standby = replica(Moving(), "two")
    peeked = await standby.peek()
    assert moved
    assert peeked.state.position == another
