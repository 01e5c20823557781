"""A step that cannot be taken is taken later, and no other in its place."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from admc.serve.rollout.underway import Planned

from admc.exits import CommandError, wrong_usage
from admc.serve.build import snapshots as groups
from admc.serve.build import source
from admc.serve.build.source import Source
from admc.serve.rollout import progress
from admc.serve.rollout.controller import Moving
from admc.serve.state_dir import rollout_record
from admc.transition.driver import Walk
from admc.transition.model import Phase
from admc.transition.steps import steps
from emitters.envoy import Mode
from tests.serve.always_ack import PROGRAM, Agreeing, back, begun, following, hasten, phase_of, planned, planned_by
from xds_server.resources.ack_events import Nacked
from xds_server.resources.types import CLUSTER, EXTENSION, LISTENER, ROUTES, TRIAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from admc.serve.build.snapshots import SnapshotSet
    from admc.serve.build.source import State


def test_a_sentence_says_who_changes_sides_and_what_is_waited_for(tmp_path: Path) -> None:
    ingress, egress = planned(tmp_path, "ingress"), planned(tmp_path, "egress")
    bronze = planned(tmp_path, "egress", "bronze")
    moved = Walk(steps(ingress.placed, egress.placed, b"k"))
    changed = Walk(steps(egress.placed, bronze.placed, b"k"))
    waits = [f"`s{number}`: 0 of 1 proxies are connected" for number in range(5)]
    assert progress.said(changed, egress.placed, bronze.placed, waits[:1]) == (
        "the new plan is not in force everywhere yet: step `final` waits for `s0`: 0 of 1 proxies are connected"
    )
    assert progress.said(moved, ingress.placed, egress.placed, waits) == (
        f"`p` changes sides: step `announce` waits for {'; '.join(waits[:3])}; and 2 more"
    )
    assert progress.said(moved, ingress.placed, egress.placed, ()) == "`p` changes sides: step `announce`"
    back = replace(moved, back=True)
    assert progress.said(back, ingress.placed, egress.placed, waits[:1]).startswith(
        "a newer plan has come, and the one before it is undone first: step `announce` waits for `s0`"
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1, "`p0` changes sides"),
        (2, "`p0` and `p1` change sides"),
        (3, "`p0`, `p1` and `p2` change sides"),
        (4, "`p0`, `p1`, `p2` and one more policy change sides"),
        (7, "`p0`, `p1`, `p2` and 4 more policies change sides"),
    ],
)
def test_few_policies_that_change_sides_are_named_and_many_counted(tmp_path: Path, number: int, said: str) -> None:
    def placed(side: str) -> Planned:
        lines = PROGRAM.splitlines()
        policy = 'policy p{0} = set_request_header(name: "x-{0}", value: "a") on web -> cart\npin p{0} at ' + side
        path = tmp_path / f"{side}.adm"
        path.write_text("\n".join(lines[:4] + [policy.format(each) for each in range(number)]) + "\n")
        read = source.read(Source(path, Mode.EXPLICIT), (), with_recipe=True)
        assert read.state is not None
        return Planned(read.state, read.recipe)

    old, new = placed("ingress").placed, placed("egress").placed
    assert progress.said(Walk(steps(old, new, b"k")), old, new, ()) == f"{said}: step `announce`"


def test_a_step_that_cannot_be_kept_is_not_taken_until_it_can(tmp_path: Path) -> None:
    old, new = planned(tmp_path, "ingress"), planned(tmp_path, "egress")
    server = Agreeing()
    failures: list[str] = []
    folder = tmp_path / "state"
    folder.mkdir()

    async def publish(told: SnapshotSet, state: State, held: frozenset[str] = frozenset()) -> None:
        server.store.publish_all({name: item for name, item in told.by_service.items() if name not in held})

    async def run() -> None:
        await publish(groups.snapshots(old.state), old.state)
        moving = Moving(
            server,  # type: ignore[arg-type]
            publish,
            drain_seconds=0.0,
            folder=folder,
            failed=lambda: failures.append(""),
        )
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: phase_of(moving) is Phase.PREPARE)
            await until(lambda: "web" in server.store.groups)
            before = {name: server.store.current(name) for name in server.store.groups}
            shutil.rmtree(folder)
            await until(lambda: any("cannot write" in item for item in moving.waits))
            assert moving.underway is not None
            assert moving.underway.walk.step.phase is Phase.PREPARE
            assert failures
            assert moving.said.startswith("`p` changes sides: step `prepare` waits for cannot write `")
            assert {name: server.store.current(name) for name in server.store.groups} == before
            folder.mkdir()
            await until(lambda: phase_of(moving) is Phase.SENDERS)

    asyncio.run(run())


def test_a_plan_that_waits_is_not_forgotten_when_the_folder_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.3)
    old, new = planned(tmp_path, "egress"), planned(tmp_path, "ingress")
    last = planned(tmp_path, "ingress", "bronze")
    server = Agreeing()
    folder = tmp_path / "state"
    folder.mkdir()

    async def run() -> None:
        moving = await begun(server, old, folder)
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: phase_of(moving) is Phase.FINAL)
            await moving.change(new, last, groups.snapshots(last.state))
            await until(lambda: phase_of(moving) is Phase.CLEAN)
            shutil.rmtree(folder)
            await until(lambda: any("cannot write" in item for item in moving.waits))
            assert moving.underway is not None
            assert moving.underway.new.state is new.state
            folder.mkdir()
            await until(lambda: moving.underway is not None and moving.underway.new.state is last.state)

    asyncio.run(run())


def test_a_plan_that_moves_nothing_makes_way_at_once_and_leaves_older_connections_what_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.3)
    first, second = planned(tmp_path, "egress"), planned(tmp_path, "egress", "bronze")
    third = planned(tmp_path, "none")
    server = Agreeing()

    def tables() -> set[str]:
        found = server.store.current("web")
        return set() if found is None else set(found.collections[ROUTES].resources)

    async def run() -> None:
        moving = await begun(server, first, tmp_path)
        before = tables()
        assert before
        await moving.change(first, second, groups.snapshots(second.state))
        await moving.change(second, third, groups.snapshots(third.state))
        assert moving.underway is not None
        assert moving.underway.new.state is third.state
        assert "web" in moving.underway.involved
        assert tables() >= before
        kept = rollout_record.read(tmp_path)
        assert kept is not None
        assert "web" in kept.lingering
        async with following(moving) as until:
            await until(lambda: moving.underway is None)
        assert rollout_record.read(tmp_path) is None

    asyncio.run(run())


def test_what_a_proxy_refuses_makes_way_for_a_newer_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, 0.3)
    old, new = planned(tmp_path, "egress"), planned(tmp_path, "ingress")
    last = planned(tmp_path, "ingress", "bronze")
    server = Agreeing()

    async def run() -> None:
        moving = await begun(server, old, None)
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: phase_of(moving) is Phase.FINAL)
            await moving.change(new, last, groups.snapshots(last.state))
            assert moving.underway is not None
            assert moving.underway.new.state is new.state
            server.refuses = True
            await until(lambda: moving.underway is not None and moving.underway.new.state is last.state)

    asyncio.run(run())


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_refused_is_taken_back_before_a_plan_that_moves_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    """Else the way to that would begin with what is refused, and nobody would ever take its first step."""
    hasten(monkeypatch, 0.1)
    old, bad = planned(tmp_path, "egress"), planned(tmp_path, "egress", "silver")
    last = planned(tmp_path, "ingress", "bronze")
    server = Agreeing()
    silver = groups.snapshots(bad.state).by_service["web"].version

    async def run() -> None:
        server.declined.add(silver)
        moving = await begun(server, old, tmp_path)
        await moving.change(old, bad, groups.snapshots(bad.state))
        assert phase_of(moving) is Phase.FINAL
        assert server.store.current("web") is not None
        await moving.change(bad, last, groups.snapshots(last.state))
        assert moving.underway is not None
        assert moving.underway.walk.back
        assert "undone first" in moving.said
        if restarts:
            moving = await back(moving, tmp_path, old, bad)
            await moving.change(bad, last, groups.snapshots(last.state))
        seen: list[Phase | None] = []

        def gone_through() -> bool:
            seen.extend([phase_of(moving)] if [phase_of(moving)] != seen[-1:] else [])
            return moving.underway is None

        async with following(moving) as until:
            await until(gone_through)
        assert [phase for phase in seen if phase in (Phase.SENDERS, Phase.RECEIVERS)] == [
            Phase.SENDERS,
            Phase.RECEIVERS,
        ]
        assert rollout_record.read(tmp_path) is None
        for service, snapshot in groups.snapshots(last.state).by_service.items():
            now = server.store.current(service)
            assert now is not None
            assert now.version == snapshot.version

    asyncio.run(run())


def test_connections_keep_what_they_have_of_a_policy_that_is_refused_and_then_dropped(tmp_path: Path) -> None:
    """Else the plan that is to mend it would bring the same configuration again, and be refused for that."""
    more = PROGRAM + "policy q = request_count() on web -> cart\npin q at egress\n"
    last = PROGRAM.splitlines(keepends=True)[:-2]
    texts = [*(more.replace("SIDE", "egress").replace("gold", each) for each in ("gold", "bad"))]
    texts.append("".join(last) + "".join(more.splitlines(keepends=True)[-2:]))
    old, bad, good = (planned_by(tmp_path / f"{number}.adm", text) for number, text in enumerate(texts))
    server = Agreeing()

    def filters() -> dict[str, str]:
        now = server.store.current("web")
        assert now is not None
        assert not now.dangling()
        return {name: each.version for name, each in now.of_type(EXTENSION).resources.items() if name != TRIAL}

    async def run() -> None:
        moving = await begun(server, old, None)
        first = server.store.current("web")
        assert first is not None
        server.store.acked("web", first)
        before = filters()
        await moving.change(old, bad, groups.snapshots(bad.state))
        second = server.store.current("web")
        assert second is not None
        (changed,) = (name for name, version in filters().items() if before[name] != version)
        trial = second.of_type(EXTENSION).resources[TRIAL].version
        server.store.nacked("web", Nacked(EXTENSION, "", "no", second, {TRIAL: trial}))
        server.declined.add(second.version)
        await moving.change(bad, good, groups.snapshots(good.state))
        assert moving.underway is not None
        assert moving.underway.new.state is good.state
        assert filters()[changed] == before[changed]

    asyncio.run(run())


def test_what_is_refused_is_taken_back_though_what_moves_is_elsewhere(tmp_path: Path) -> None:
    """Whoever refuses it is waited for before policies change sides, whoever's they are."""
    old, bad, last = (planned_by(tmp_path / f"{name}.adm", _two(*name)) for name in ("gi", "si", "se"))
    server = Agreeing()

    async def run() -> None:
        server.declined.add(groups.snapshots(bad.state).by_service["till"].version)
        moving = await begun(server, old, tmp_path)
        await moving.change(old, bad, groups.snapshots(bad.state))
        assert phase_of(moving) is Phase.FINAL
        await moving.change(bad, last, groups.snapshots(last.state))
        assert moving.underway is not None
        assert moving.underway.walk.back
        assert "undone first" in moving.said

    asyncio.run(run())


def test_nothing_is_taken_back_from_where_there_would_be_no_way(tmp_path: Path) -> None:
    """Else the newer plan would be taken for what is in force in the end, and never be."""
    moved = PROGRAM.replace("8081", "8081 -> 9081")
    old = planned(tmp_path, "ingress")
    bad = planned_by(tmp_path / "bad.adm", moved.replace("SIDE", "ingress").replace("gold", "silver"))
    last = planned_by(tmp_path / "last.adm", moved.replace("SIDE", "egress"))
    server = Agreeing()

    async def run() -> None:
        server.declined.add(groups.snapshots(bad.state).by_service["cart"].version)
        moving = await begun(server, old, tmp_path)
        await moving.change(old, bad, groups.snapshots(bad.state))
        with pytest.raises(CommandError) as caught:
            await moving.change(bad, last, groups.snapshots(last.state))
        assert [item.code for item in caught.value.diagnostics] == ["ADM855"]
        assert moving.underway is not None
        assert moving.underway.new.state is bad.state
        assert not moving.underway.walk.back
        assert "then a newer plan" not in moving.said

    asyncio.run(run())


def _two(tier: str, side: str) -> str:
    """Two destinations: at one a header is `gold` or `silver`, at the other a policy is at one side or the other."""
    return f"""\
app shop
service web, till  {{ http 8080 }}
service cart, desk {{ http 8081 }}
call web -> cart
call till -> desk
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
policy t = set_request_header(name: "x-tier", value: "{"gold" if tier == "g" else "silver"}") on till -> desk
pin p at {"ingress" if side == "i" else "egress"}
pin t at egress
"""


def test_a_plan_that_moves_something_waits_for_the_one_before_to_be_taken_or_refused(tmp_path: Path) -> None:
    old, slow = planned(tmp_path, "egress"), planned(tmp_path, "egress", "silver")
    last = planned(tmp_path, "ingress", "bronze")
    server = Slow()

    async def run() -> None:
        moving = await begun(server, old, None)
        server.away = {"web"}
        await moving.change(old, slow, groups.snapshots(slow.state))
        await moving.change(slow, last, groups.snapshots(last.state))
        async with following(moving) as until:
            await until(lambda: "connected" in moving.said)
            assert moving.underway is not None
            assert moving.underway.new.state is slow.state
            assert not moving.underway.walk.back
            server.away = set()
            await until(lambda: moving.underway is not None and moving.underway.new.state is last.state)

    asyncio.run(run())


class Slow(Agreeing):
    """Proxies of some services are away."""

    away: Collection[str] = ()

    def views(self, groups: Iterable[str]) -> tuple[Any, ...]:
        return super().views(name for name in groups if name not in self.away)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_service_that_has_gone_from_the_program_keeps_its_policies_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    hasten(monkeypatch, 0.1)
    more = "service till { http 8082 }\ncall till -> cart\n"
    policy = PROGRAM.replace("web -> cart\npin", "* -> cart\npin")
    old = planned_by(tmp_path / "old.adm", policy.replace("SIDE", "egress") + more, mode)
    new = planned_by(tmp_path / "new.adm", policy.replace("SIDE", "ingress"), mode)
    server = Agreeing()
    views = server.views

    async def run() -> None:
        moving = await begun(server, old, tmp_path)
        before = server.store.current("till")
        assert before is not None
        # Whoever is in no program any more is not let in.
        monkeypatch.setattr(server, "views", lambda groups: views(set(groups) - {"till"}))
        await moving.change(old, new, groups.snapshots(new.state))
        assert moving.underway is not None
        assert "till" in moving.underway.walk.step.leaves
        there = server.store.current("till")
        assert there is not None
        assert there.collections[EXTENSION].resources.keys() >= before.collections[EXTENSION].resources.keys()
        async with following(moving) as until:
            if mode is Mode.REDIRECT:
                place = tmp_path / "interception" / "cart"
                await until((place / "digest").exists)
                (place / "loaded").write_bytes((place / "digest").read_bytes())
            await until(lambda: moving.underway is None)

    asyncio.run(run())


def test_a_name_that_comes_back_is_another_until_connections_are_closed_that_have_it_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.3)
    head, policy = PROGRAM.split("policy")
    gold = "policy" + policy.replace("SIDE", "egress")
    called = gold.replace(" p ", " q ")
    texts = {"first": gold, "second": called, "other": called + gold.replace("gold", "bronze")}
    plans = {name: planned_by(tmp_path / f"{name}.adm", head + text) for name, text in texts.items()}
    first, second, other = plans.values()
    server = Agreeing()

    def filters() -> set[str]:
        found = server.store.current("web")
        assert found is not None
        there = found.collections[EXTENSION].resources
        return {name.rpartition("/")[2].partition(":")[0] for name in there if name != TRIAL}

    async def run() -> None:
        moving = await begun(server, first, None)
        await moving.change(first, second, groups.snapshots(second.state))
        await moving.change(second, first, groups.snapshots(first.state))
        assert moving.underway is not None
        assert moving.underway.new.state is first.state
        assert moving.underway.new.names == {}
        moving = await begun(server, first, tmp_path)
        await moving.change(first, second, groups.snapshots(second.state))
        await moving.change(second, other, groups.snapshots(other.state))
        assert moving.underway is not None
        assert moving.underway.new.names == {"p": "p~2"}
        assert filters() == {"p", "q", "p~2"}
        # The same by a server that comes back, and by one whose plan is compiled anew.
        again = await back(moving, tmp_path, second, other)
        await again.change(other, other, groups.snapshots(other.state))
        assert filters() == {"p", "q", "p~2"}
        async with following(again) as until:
            await until(lambda: again.underway is None)
        assert filters() == {"p", "q"}
        whole = groups.snapshots(other.state).by_service["web"]
        found = server.store.current("web")
        assert found is not None
        assert found.version == whole.version

    asyncio.run(run())


def test_a_server_that_comes_back_knows_what_older_connections_have(tmp_path: Path) -> None:
    head, policy = PROGRAM.split("policy")
    gold = "policy" + policy.replace("SIDE", "egress")
    called = gold.replace(" p ", " q ")
    first, second = planned_by(tmp_path / "a.adm", head + gold), planned_by(tmp_path / "b.adm", head + called)
    third = planned_by(tmp_path / "c.adm", head + called.replace(" q ", " r "))
    server = Agreeing()

    async def run() -> None:
        moving = await begun(server, first, tmp_path)
        await moving.change(first, second, groups.snapshots(second.state))
        await moving.change(second, third, groups.snapshots(third.state))
        again = await back(moving, tmp_path, second, third)
        # It knows the names alone, so it takes none of them for the same.
        await again.change(third, first, groups.snapshots(first.state))
        assert again.underway is not None
        assert again.underway.new.names == {"p": "p~2"}

    asyncio.run(run())


def test_a_step_that_there_is_not_is_none_to_go_on_with(tmp_path: Path) -> None:
    first, second = planned(tmp_path, "egress"), planned(tmp_path, "egress", "bronze")
    server = Agreeing()

    async def run() -> None:
        moving = await begun(server, first, tmp_path)
        await moving.change(first, second, groups.snapshots(second.state))
        kept = rollout_record.read(tmp_path)
        assert kept is not None
        rollout_record.write(tmp_path, kept._replace(at=7))
        with pytest.raises(CommandError, match="the kept transition"):
            await back(moving, tmp_path, first, second)

    asyncio.run(run())


def test_whoever_asks_is_told_how_long_older_connections_may_last(tmp_path: Path) -> None:
    old, new = planned(tmp_path, "egress"), planned(tmp_path, "egress", "bronze")
    server = Agreeing()

    async def run() -> None:
        moving = await begun(server, old, None)
        moving._drain_seconds = 1000.0
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: "connections that are older to be closed (in " in moving.said)
        assert 900 < int(moving.said.rpartition("(in ")[2].partition(" s)")[0]) <= 1002

    asyncio.run(run())


def test_a_service_that_loses_its_last_policy_keeps_what_older_connections_need_for_a_whole_drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.1)
    text = PROGRAM.replace("SIDE", "ingress")
    first = planned_by(tmp_path / "first.adm", text, Mode.REDIRECT)
    second = planned_by(tmp_path / "second.adm", "".join(text.splitlines(keepends=True)[:4]), Mode.REDIRECT)
    server = Agreeing()

    async def run() -> None:
        moving = await begun(server, first, tmp_path)
        before = server.store.current("cart")
        assert before is not None
        await moving.change(first, second, groups.snapshots(second.state))
        final = server.store.current("cart")
        assert final is not None
        assert final.collections[LISTENER] != before.collections[LISTENER]
        for type_url in (ROUTES, CLUSTER, EXTENSION):
            assert final.collections[type_url].resources.keys() >= before.collections[type_url].resources.keys()
        # A server that comes back knows what everybody passes on with, before it has compiled anything.
        again = await back(moving, tmp_path, first, second)
        resumed = server.store.current("cart")
        assert resumed is not None
        assert resumed.version == final.version
        async with following(again) as until:
            await until(lambda: again.underway is None)
        passing = groups.snapshots(second.state).passthrough
        assert passing is not None
        found = server.store.current("cart")
        assert found is not None
        assert found.version == passing.version

    asyncio.run(run())


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_that_goes_is_made_again_with_what_is_redirected_and_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """`again`: the server was started anew in between, and has what it asked for from the folder only."""
    hasten(monkeypatch, 0.1)
    old = planned_by(tmp_path / "old.adm", PROGRAM.replace("SIDE", "egress"), Mode.REDIRECT)
    new = planned_by(tmp_path / "new.adm", PROGRAM.replace("SIDE", "ingress"), Mode.REDIRECT)
    server = Agreeing()
    folder = tmp_path / "state"
    folder.mkdir()
    place = folder / "interception" / "cart"

    def content() -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    async def run() -> None:
        moving = await begun(server, old, folder)
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: moving.waits == ("`cart`: its interception",))
        if again:
            moving = await back(moving, folder, old, new)
        async with following(moving) as until:
            before = content()
            assert before.keys() == {
                *(f"interception/cart/{name}" for name in ("iptables.rules", "ip6tables.rules", "digest")),
                "transition.json",
                "redirected.json",
            }
            # Somebody puts another folder in its place, with word of rules that were loaded long ago.
            folder.rename(tmp_path / "away")
            place.mkdir(parents=True)
            (place / "loaded").write_bytes((tmp_path / "away" / "interception" / "cart" / "digest").read_bytes())
            await moving.keep(anew=True)
            assert content() == before
            await until(lambda: moving.waits == ("`cart`: its interception",))
            (place / "loaded").write_bytes((place / "digest").read_bytes())
            await until(lambda: moving.underway is None)
            known = json.loads((folder / "redirected.json").read_text())
            assert known["asked"] == {}
            assert known["redirected"]["cart"]
            # And when nothing is under way.
            shutil.rmtree(folder)
            folder.mkdir()
            await moving.keep(anew=True)
            assert json.loads((folder / "redirected.json").read_text()) == known

    asyncio.run(run())


@pytest.mark.parametrize("touched", [True, False])
def test_the_step_is_written_again_if_somebody_removes_or_touches_it(tmp_path: Path, touched: bool) -> None:
    old, new = planned(tmp_path, "ingress"), planned(tmp_path, "egress")
    path = tmp_path / rollout_record.NAME

    async def run() -> None:
        moving = await begun(Agreeing(), old, tmp_path)
        await moving.change(old, new, groups.snapshots(new.state))
        for again in (moving, await back(moving, tmp_path, old, new)):
            content = path.read_bytes()
            if touched:
                path.write_text("{}")
            else:
                path.unlink()
            assert await again.keep(anew=False)
            assert path.read_bytes() == content
            assert not await again.keep(anew=False)

    asyncio.run(run())


def test_a_transition_is_over_once_a_restart_would_begin_with_what_it_led_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a server that comes back would go from the plan before once more, and take from proxies what they have."""
    hasten(monkeypatch, 0.05)
    old, new = planned(tmp_path, "ingress"), planned(tmp_path, "egress")
    server = Agreeing()
    full = True
    settled: list[object] = []

    async def settle(recipe: object) -> None:
        if full and recipe is not None:
            raise wrong_usage("ADM854", "cannot store the state in `state`")
        settled.append(recipe)

    async def run() -> None:
        nonlocal full
        moving = await begun(server, old, tmp_path)
        moving._settle = settle
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: "cannot store the state in `state`" in moving.waits)
            assert phase_of(moving) is Phase.CLEAN
            kept = rollout_record.read(tmp_path)
            assert kept is not None
            assert kept.new == new.recipe
            full = False
            await until(lambda: moving.underway is None)
        assert settled[-1] == new.recipe
        assert rollout_record.read(tmp_path) is None

    asyncio.run(run())


def test_whom_only_the_transition_before_was_about_keeps_its_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to forget what it was to skip, and nothing in the steps after that is about it."""
    hasten(monkeypatch, 0.1)
    text = PROGRAM.partition("pin")[0] + (
        "service stock { http 8082 }\ncall web -> stock\n"
        'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\n'
    )
    pins = [("ingress", "ingress"), ("egress", "ingress"), ("ingress", "egress")]
    first, second, third = (
        planned_by(tmp_path / f"{p}-{r}.adm", f"{text}pin p at {p}\npin r at {r}\n", Mode.REDIRECT) for p, r in pins
    )
    server = Agreeing()
    folder = tmp_path / "state"
    folder.mkdir()

    async def run() -> None:
        moving = await begun(server, first, folder)
        enforced = groups.snapshots(first.state).by_service["cart"].collections[LISTENER].version
        seen = []
        server.store.watchers.append(lambda name, _, new: seen.append(new) if name == "cart" else None)
        await moving.change(first, second, groups.snapshots(second.state))
        await moving.change(second, third, groups.snapshots(third.state))
        async with following(moving) as until:
            place = folder / "interception" / "web"
            await until((place / "digest").exists)
            (place / "loaded").write_bytes((place / "digest").read_bytes())
            await until(lambda: moving.underway is None)
        assert {found.collections[LISTENER].version for found in seen} <= {enforced}

    asyncio.run(run())


def test_each_transition_has_markers_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers heed a marker while not every sender takes an application's away: none is known by then."""
    hasten(monkeypatch, 0.05)
    text = PROGRAM.replace("set_request_header", "add_request_header")
    plans = [planned_by(tmp_path / f"{side}.adm", text.replace("SIDE", side)) for side in ("ingress", "egress")]

    async def run() -> None:
        moving = await begun(Agreeing(), plans[0], tmp_path)
        told: list[frozenset[str]] = []
        async with following(moving) as until:
            for number in range(3):
                old, new = plans[number % 2], plans[(number + 1) % 2]
                await moving.change(old, new, groups.snapshots(new.state))
                kept = rollout_record.read(tmp_path)
                assert moving.underway is not None
                assert kept is not None
                assert kept.key == moving.underway.key
                told.append(moving.underway.walk.step.secrets)
                await until(lambda: moving.underway is None)
        assert all(told)
        assert told[0] != told[2]

    asyncio.run(run())
