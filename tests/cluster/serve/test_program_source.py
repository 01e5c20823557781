"""Which program is wanted, what the addresses are about, and that a restart changes neither."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

import dsl
from admc.compile.facts import FACTS, ServiceFacts, to_json, with_facts
from admc.kubernetes.cluster.address_source import ClusterAddresses
from admc.kubernetes.cluster.core.facts import FactState
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.records import Key
from tests.cluster.objects import pod
from tests.cluster.serve.shown import PROGRAM, WITH_POLICY, Shown, compiled, listed, shop, wanted_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from admc.kubernetes.cluster.core.selection import Selection
    from admc.kubernetes.cluster.program_source import ClusterPrograms
    from admc.serve.compiling.source import Source
    from admc.serve.storage.position import Recipe
    from dsl.program import Program

NO_FACTS = FactState({})
IMPOSSIBLE = WITH_POLICY + "pin p at ingress on search -> rate\npin p at egress on search -> rate\n"
SECONDS = 20.0


@contextlib.asynccontextmanager
async def running(
    wanted: ClusterPrograms, stored: Sequence[Recipe] = (), facts: FactState = NO_FACTS
) -> AsyncIterator[None]:
    task = asyncio.create_task(wanted.run())
    try:
        await asyncio.wait_for(wanted.restore(facts, stored), SECONDS)
        yield
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def source_of(wanted: ClusterPrograms) -> Source:
    found = await wanted.current()
    assert found is not None
    return found


async def next_source(wanted: ClusterPrograms) -> Source:
    await asyncio.wait_for(wanted.changed(), SECONDS)
    return await source_of(wanted)


def selection(wanted: ClusterPrograms, program: Program) -> Selection:
    """The pods by which the clients of a program in force are known."""
    return wanted.selection_for(program)[1]


async def until(condition: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_addresses_are_about_a_program_as_soon_as_it_is_wanted() -> None:
    shown = shop()
    wanted = wanted_of(shown)
    async with running(wanted):
        addresses = ClusterAddresses(wanted)
        assert await addresses.current() == b'{"services":{}}'
        changed = asyncio.create_task(addresses.changed())
        await asyncio.sleep(0)
        shown.program_is(PROGRAM)  # nothing else of the cluster changes
        await asyncio.wait_for(changed, SECONDS)
        assert b"10.96.0.2" in await addresses.current()


async def test_a_service_that_the_next_program_drops_stays_located_until_no_proxy_has_it() -> None:
    shown = shop()
    shown.program_is(WITH_POLICY)
    wanted = wanted_of(shown)
    async with running(wanted):
        first, _ = compiled(wanted, await source_of(wanted))
        wanted.in_force([first.program], [first.program])
        shown.program_is("app shop\nservice rate { http 9000  namespace shop }\n")
        second, _ = compiled(wanted, await next_source(wanted))  # it ignores the addresses of another's service
        wanted.in_force([second.program, first.program], [second.program, first.program])
        shown.pod_is(pod("search-1", "search", "10.1.0.1"))
        assert listed(wanted)["search"]["pods"] == ["10.1.0.1"]
        wanted.in_force([second.program], [second.program])
        assert list(listed(wanted)) == ["rate"]


@pytest.mark.parametrize("then", [IMPOSSIBLE, "half of"])
async def test_clients_are_known_by_the_program_in_force_while_its_successor_is_refused(then: str) -> None:
    shown = shop()
    shown.program_is(WITH_POLICY)
    wanted = wanted_of(shown)
    async with running(wanted):
        state, _ = compiled(wanted, await source_of(wanted))
        wanted.in_force([state.program], [state.program])
        shown.program_is(then)
        await until(lambda: wanted.state.candidate is not None and wanted.state.candidate.object.generation == 2)
        wanted.in_force([state.program], [state.program])
        wanted.in_force([state.program], [state.program])
        new = pod("search-1", "search", "10.1.0.1")
        shown.pod_is(new)
        assert selection(wanted, state.program).services_of(new.key) == ("search",)
        assert listed(wanted)["search"]["pods"] == ["10.1.0.1"]


async def test_the_services_of_a_refused_program_decide_no_address() -> None:
    shown = shop()
    shown.service_is("rate-v2", "10.96.0.9", selector={"app": "rate"})
    shown.program_is(WITH_POLICY)
    wanted = wanted_of(shown)
    async with running(wanted):
        state, _ = compiled(wanted, await source_of(wanted))
        wanted.in_force([state.program], [state.program])
        shown.program_is(IMPOSSIBLE, services={"rate": "rate-v2"})
        await next_source(wanted)
        for _ in range(2):
            wanted.in_force([state.program], [state.program])
            assert listed(wanted)["rate"]["addresses"] == ["10.96.0.2"]
            assert selection(wanted, state.program).keys["rate"] == Key(
                "shop", "rate"
            )  # by these its clients are known


async def test_clients_are_known_after_the_same_program_was_applied_again() -> None:
    shown = shop()
    shown.program_is(PROGRAM)
    wanted = wanted_of(shown)
    async with running(wanted):
        state, _ = compiled(wanted, await source_of(wanted))
        wanted.in_force([state.program], [state.program])
        shown.program_is_gone()
        await until(lambda: wanted.state.candidate is None)
        shown.program_is(PROGRAM, uid="uid-2")
        await until(lambda: wanted.outputs.owner == Owner("shop", "uid-2"))
        wanted.in_force([state.program], [state.program])
        new = pod("search-1", "search", "10.1.0.1")
        shown.pod_is(new)
        assert selection(wanted, state.program).services_of(new.key) == ("search",)


async def test_what_a_program_that_is_gone_would_own_is_not_written() -> None:
    shown = shop()
    wanted = wanted_of(shown)
    async with running(wanted):
        assert wanted.outputs.owner is None
        shown.program_is(PROGRAM)
        await until(lambda: wanted.outputs.owner == Owner("shop", "uid-1"))
        shown.program_is_gone()
        wanted.advance()
        assert wanted.outputs.owner is None
        assert wanted.state.servable is not None
        # A younger one takes its place, also before it can be served; in mode `Audit` it owns nothing.
        shown.program_is("half of", "other", "uid-2")
        await until(lambda: wanted.outputs.owner == Owner("other", "uid-2"))
        shown.program_is(PROGRAM, "other", "uid-2", mode="Audit")
        await until(lambda: wanted.outputs.owner is None)


async def test_a_program_that_cannot_be_served_decides_no_address() -> None:
    """Also after a restart, when it is the only one that the cluster has."""
    shown = shop()
    shown.program_is(PROGRAM)
    wanted = wanted_of(shown)
    async with running(wanted):
        _, recipe = compiled(wanted, await source_of(wanted))
    elsewhere = {"services": {"rate": "search"}}
    shown.service_is("till", port=9001)
    shown.program_is(PROGRAM + "service till { http 9001  namespace shop }\n", mode="Audit", **elsewhere)
    again = wanted_of(shown)
    async with running(again, [recipe]):
        assert again.state.is_audit
        assert sorted(listed(again)) == ["rate", "search"]
        assert listed(again)["rate"]["addresses"] == ["10.96.0.2"]


REVIEWED = "policies.plan.json"


@pytest.mark.parametrize("reviewed", [False, True])
@pytest.mark.parametrize("then", ["half of", None])
async def test_a_restarted_server_has_the_source_of_the_one_before(then: str | None, reviewed: bool) -> None:
    shown = Shown()
    shown.service_is("search", port=8080)
    shown.service_is("rate-v2", "10.96.0.9", selector={"app": "rate"})
    shown.pod_is(pod("rate-1", "rate", "10.1.0.1", untrusted="container `x` has NET_ADMIN"))
    names = {"services": {"rate": "rate-v2"}}
    shown.program_is(WITH_POLICY, **names)
    wanted = wanted_of(shown)
    async with running(wanted):
        state, recipe = compiled(wanted, await source_of(wanted))
        if reviewed:
            files = {"policies.adm": WITH_POLICY, REVIEWED: recipe.plan.decode()}
            shown.program_is(files, **names)  # type: ignore[arg-type]
            state, recipe = compiled(wanted, await next_source(wanted))
        before, addresses = await source_of(wanted), listed(wanted)
    assert before.is_plan is reviewed
    assert addresses["rate"] == {"addresses": ["10.96.0.9"], "pods": ["10.1.0.1"]}
    if then is None:
        shown.program_is_gone()
    else:
        shown.program_is(then)
    facts = FactState.restored(recipe.inputs[FACTS], 0.0)
    again = wanted_of(shown)
    async with running(again, [recipe], facts):
        assert await source_of(again) == before
        assert listed(again) == addresses
        assert compiled(again, before)[0].version == state.version
        # A fact that becomes worse counts, as it does without a restart.
        shown.pod_is(pod("search-1", "search", "10.1.0.2", untrusted="container `x` has NET_ADMIN"))
        assert b'"search"' in ((await next_source(again)).facts or b"")


async def test_addresses_of_all_stored_plans_are_followed() -> None:
    shown = shop()
    shown.service_is("search-v2", "10.96.0.8", port=8080, selector={"app": "search"})
    shown.program_is(WITH_POLICY, services={"search": "search-v2"})
    wanted = wanted_of(shown)
    async with running(wanted):
        old, first = compiled(wanted, await source_of(wanted))
        shown.program_is("app shop\nservice rate { http 9000  namespace shop }\n")
        new, second = compiled(wanted, await next_source(wanted))
    again = wanted_of(shown)
    async with running(again, [second, first]):
        before = listed(again)
        assert sorted(before) == ["rate", "search"]
        assert before["search"]["addresses"] == ["10.96.0.8"]
        assert again.state.servable is not None
        assert again.state.servable.object is not None  # the Program says the same
        again.in_force([new.program, old.program], [old.program])
        assert listed(again) == before


async def test_one_that_stands_by_begins_anew_with_each_stored_state() -> None:
    shown = shop()
    shown.program_is(WITH_POLICY)
    first_facts, second_facts = (
        FactState.restored(to_json({"rate": ServiceFacts(**each)}), 0.0)
        for each in ({"untrusted": "NET_ADMIN"}, {"no_adm": "Windows"})
    )
    wanted = wanted_of(shown)
    async with running(wanted):
        first = await source_of(wanted)
        _, recipe = compiled(wanted, first)
        shown.program_is("app shop\nservice rate { http 9000  namespace shop }\n")
        second = await next_source(wanted)
        _, other = compiled(wanted, second)
        await wanted.restore(first_facts, [other, recipe])
        assert sorted(listed(wanted)) == ["rate", "search"]
        assert b"NET_ADMIN" in ((await source_of(wanted)).facts or b"")
        await wanted.restore(second_facts, [other])
        assert sorted(listed(wanted)) == ["rate"]
        facts = (await source_of(wanted)).facts or b""
        assert b"Windows" in facts
        assert b"NET_ADMIN" not in facts
        assert len(wanted.state.followed) == 1


async def test_an_address_of_a_node_is_no_services_while_a_plan_is_published_that_knows_nothing_of_it() -> None:
    shown = shop()
    shown.program_is(PROGRAM)
    wanted = wanted_of(shown)
    async with running(wanted):
        old, _ = compiled(wanted, await source_of(wanted))
        wanted.in_force([old.program], [old.program])
        shown.pod_is(pod("rate-1", "rate", "10.0.0.1", host_network=True))
        assert "rate" not in listed(wanted)
        new = with_facts(dsl.load_text(PROGRAM), to_json({"rate": ServiceFacts(host_network=True)}))
        wanted.in_force([new, old.program], [new, old.program])
        assert "rate" not in listed(wanted)
        wanted.in_force([new, old.program], [new])  # a proxy that is away may have the old one
        assert listed(wanted)["rate"]["pods"] == ["10.0.0.1"]


async def test_a_config_map_that_comes_late_is_read_though_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.core.step.READ_AGAIN_SECONDS", 0.1)
    shown = shop()
    digest = hashlib.sha256(PROGRAM.encode()).hexdigest()
    files = [{"name": "policies", "key": "policies.adm", "sha256": digest}]
    wanted = wanted_of(shown)
    async with running(wanted):
        shown.program_is(None, files=None, configMaps=files)
        await until(lambda: wanted.state.candidate is not None and wanted.state.candidate.read.waits)
        await asyncio.sleep(0.3)
        path = "/api/v1/namespaces/admc-system/configmaps"
        await shown.memory.create(path, {"metadata": {"name": "policies"}, "data": {"policies.adm": PROGRAM}})
        source = await next_source(wanted)
        assert source.files == {"policies.adm": PROGRAM.encode()}


async def test_a_program_that_is_being_compiled_keeps_its_names_while_a_newer_one_is_servable() -> None:
    shown = shop()
    shown.service_is("till-v1", "10.96.0.7", port=9001, selector={"app": "till"})
    shown.pod_is(pod("till-1", "till", "10.1.0.7"))
    shown.program_is(PROGRAM)
    wanted = wanted_of(shown)
    async with running(wanted):
        first, _ = compiled(wanted, await source_of(wanted))
        wanted.in_force([first.program], [first.program])
        till = "service till { http 9001  namespace shop }\n"
        shown.program_is(PROGRAM + till, services={"till": "till-v1"})
        second, _ = compiled(wanted, await next_source(wanted))
        shown.program_is(WITH_POLICY)
        await asyncio.wait_for(wanted.changed(), SECONDS)
        wanted.in_force([first.program], [first.program])  # the second plan is being stored
        wanted.in_force([second.program, first.program], [second.program, first.program])
        assert listed(wanted)["till"]["pods"] == ["10.1.0.7"]
        assert selection(wanted, second.program).keys["till"] == Key("shop", "till-v1")
        third, _ = compiled(wanted, await source_of(wanted))
        wanted.in_force([third.program], [third.program])
        assert sorted(listed(wanted)) == ["rate", "search"]
        assert len(wanted.state.followed) == 1


async def test_clients_that_came_before_their_program_was_followed_are_checked_again() -> None:
    shown = shop()
    wanted = wanted_of(shown)
    async with running(wanted):
        program = dsl.load_text(PROGRAM)
        before = wanted.state.clients
        wanted.in_force([program], [program])
        assert {name for name, look in wanted.state.clients.items() if before.get(name) != look} == {"rate", "search"}


def test_before_everything_is_listed_no_change_is_kept() -> None:
    shown = shop()
    shown.take()
    shown.policies.synced.clear()
    for number in range(3):
        shown.pod_is(pod(f"search-{number}", "search", f"10.1.0.{number}"))
    change = shown.take()
    assert change.services == frozenset()
    assert len(change.view.pods) == 3


async def test_what_is_compiled() -> None:
    shown = shop()
    shown.program_is(PROGRAM)
    wanted = wanted_of(shown)
    async with running(wanted):
        await source_of(wanted)
        assert wanted.state.candidate is not None
        assert not wanted.is_compiled(wanted.state.candidate)
        wanted.compiled({})
        assert wanted.is_compiled(wanted.state.candidate)
        shown.program_is(WITH_POLICY)
        await next_source(wanted)
        assert not wanted.is_compiled(wanted.state.candidate)
        wanted.compiled({})
        assert wanted.is_compiled(wanted.state.candidate)


async def test_a_program_may_lie_in_a_folder_of_its_own() -> None:
    shown = shop()
    files = {
        "sub/policies.adm": WITH_POLICY + 'use "k/more.adm"\n',
        "sub/k/more.adm": "// more\n",
        "other.adm": "half of",
    }
    shown.program_is(files, main="sub/policies.adm")  # type: ignore[arg-type]
    wanted = wanted_of(shown)
    async with running(wanted):
        state, recipe = compiled(wanted, await source_of(wanted))
        assert {"policies.adm", "k/more.adm"} <= recipe.inputs.keys()
    again = wanted_of(shown)
    async with running(again, [recipe]):
        assert compiled(again, await source_of(again))[0].version == state.version


async def test_a_program_that_admc_fails_at_is_reported_and_does_not_end_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    shown = shop()
    shown.program_is(PROGRAM)
    wanted = wanted_of(shown)
    async with running(wanted):
        monkeypatch.setattr("admc.kubernetes.cluster.program_source.load_program", fails)
        shown.program_is(WITH_POLICY)
        await until(lambda: wanted.state.candidate is not None and wanted.state.candidate.findings)
        assert wanted.state.candidate is not None
        assert [each.code for each in wanted.state.candidate.findings] == ["ADM901"]
        assert wanted.state.servable is not None


def test_pods_with_the_adm_of_a_service_are_known_without_the_service() -> None:
    shown = Shown()
    one = pod("search-1", "search", "10.1.0.1", adm="shop/search")
    shown.pod_is(one, pod("search-1", "search", "10.1.0.2", adm="shop/search", namespace="copy"))
    shown.pod_is(pod("rate-1", "rate", "10.1.0.3"))
    assert shown.view.hosting_in("shop", "search") == (one,)
    shown.pod_is(pod("search-1", "search", "10.1.0.1", adm="shop/search", is_over=True))
    assert shown.view.hosting_in("shop", "search") == ()
    shown.pod_is(one)
    shown.pod_is_gone(one)
    assert shown.view.hosting_in("shop", "search") == ()
