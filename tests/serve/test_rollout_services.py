"""Services that a plan removes, that lose their last policy, or that only an earlier rollout was about."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from admc.serve.rollout.model import StepName
from emitters.envoy import Mode
from tests.serve.always_ack import PROGRAM, Agreeing, at, back, begun, close_all, following, hasten, planned_by
from xds_server.resources.types import EXTENSION, LISTENER, ROUTES, TRIAL

MODES = (Mode.POD, *(pytest.param(mode, marks=pytest.mark.long) for mode in (Mode.REDIRECT, Mode.EXPLICIT)))

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from admc.serve.publication.controller import Rollout


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


def is_proven(rollout: Rollout) -> bool:
    return rollout.state is not None and rollout.state.proven == rollout.state.now


def confirm_all(folder: Path) -> None:
    """Confirm the redirection that the server requests."""
    for place in (folder / "interception").glob("*"):
        if (place / "digest").exists():
            (place / "loaded").write_bytes((place / "digest").read_bytes())


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_removed_service_keeps_its_policies_and_holds_nothing_up(tmp_path: Path, mode: Mode) -> None:
    more = "service till { http 8082 }\ncall till -> cart\n"
    policy = PROGRAM.replace("web -> cart\npin", "* -> cart\npin")
    old = planned_by(tmp_path / "old.adm", policy.replace("SIDE", "egress") + more, mode)
    new = planned_by(tmp_path / "new.adm", policy.replace("SIDE", "ingress"), mode)
    server, folder = Agreeing(), tmp_path / "state"

    async def run() -> None:
        rollout = await begun(server, old, folder)
        before = server.store.current("till")
        assert before is not None
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            await rollout.accept(new)
            await until(lambda: at(rollout) == StepName.PREPARE)
            server.away = {"till"}  # its proxies are not admitted any more
            there = server.store.current("till")
            assert there is not None
            kept = before.collections[EXTENSION].resources.keys()
            assert there.collections[EXTENSION].resources.keys() >= kept

            def over() -> bool:
                confirm_all(folder)
                return at(rollout) == "new.adm" and not rollout.under_way

            await until(over)

    asyncio.run(run())


def test_a_service_that_loses_its_last_policy_keeps_what_older_connections_use(tmp_path: Path) -> None:
    text = PROGRAM.replace("SIDE", "ingress")
    first = planned_by(tmp_path / "first.adm", text, Mode.REDIRECT)
    second = planned_by(tmp_path / "second.adm", "".join(text.splitlines(keepends=True)[:4]), Mode.REDIRECT)
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, first, tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            before = server.store.current("cart")
            assert before is not None
            used = {name for kind in (ROUTES, EXTENSION) for name in before.collections[kind].resources} - {TRIAL}
            server.older = {"cart": frozenset(used)}
            await rollout.accept(second)
            final = server.store.current("cart")
            assert final is not None
            assert final.collections[LISTENER] != before.collections[LISTENER]
            await asyncio.sleep(0.5)
            now = server.store.current("cart")
            assert now is not None
            assert not now.dangling()
            for kind in (ROUTES, EXTENSION):
                assert now.collections[kind].resources.keys() >= before.collections[kind].resources.keys()
            server.older = {}
            assert second.groups is not None
            assert second.groups.passthrough is not None
            passing = second.groups.passthrough.version
            await until(lambda: (found := server.store.current("cart")) is not None and found.version == passing)

    asyncio.run(run())


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_service_that_only_an_earlier_rollout_was_about_keeps_its_policies(tmp_path: Path, mode: Mode) -> None:
    text = PROGRAM.partition("pin")[0] + (
        "service stock { http 8082 }\ncall web -> stock\n"
        'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\n'
    )
    pins = [("ingress", "ingress"), ("egress", "ingress"), ("ingress", "egress")]
    first, second, third = (
        planned_by(tmp_path / f"{p}-{r}.adm", f"{text}pin p at {p}\npin r at {r}\n", mode) for p, r in pins
    )
    server, folder = Agreeing(), tmp_path / "state"

    def filters() -> frozenset[str]:
        found = server.store.current("cart")
        assert found is not None
        return frozenset(found.collections[EXTENSION].resources)

    def listener() -> str:
        found = server.store.current("cart")
        assert found is not None
        return found.collections[LISTENER].version

    async def run() -> None:
        rollout = await begun(server, first, folder)
        seen: list[frozenset[str]] = []
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            enforced = listener()
            server.store.watchers.append(lambda name, _, new: seen.append(filters()) if name == "cart" else None)
            before = filters()
            await rollout.accept(second)
            await until(lambda: at(rollout) == StepName.PREPARE)
            await rollout.accept(third)  # the first move is taken back, before the other one begins

            def over() -> bool:
                confirm_all(folder)
                return at(rollout) == "ingress-egress.adm" and not rollout.under_way

            await until(over)
            await until(lambda: filters() == before)
        assert all(before <= each for each in seen)
        assert listener() == enforced

    asyncio.run(run())


def test_older_connections_of_a_proxy_that_is_not_back_yet_keep_what_they_use(tmp_path: Path) -> None:
    """After a restart of the server, a plan withdraws an ADM before its proxy has come back."""
    text = PROGRAM.replace("SIDE", "ingress")
    first = planned_by(tmp_path / "first.adm", text, Mode.REDIRECT)
    second = planned_by(tmp_path / "second.adm", "".join(text.splitlines(keepends=True)[:4]), Mode.REDIRECT)
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, first, tmp_path / "state")
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
        before = server.store.current("cart")
        assert before is not None
        used = {name for kind in (ROUTES, EXTENSION) for name in before.collections[kind].resources} - {TRIAL}
        server.away = {"web", "cart"}
        rollout = await back(server, tmp_path / "state")
        async with following(rollout) as until:
            await rollout.accept(second)
            await until(lambda: rollout.waits != ())
            assert [each.partition(" (")[0] for each in rollout.waits] == ["`cart`: 0 of 1 proxies are connected"]
            server.older, server.away = {"cart": frozenset(used)}, set()
            await until(lambda: rollout.waits == ())
            there = server.store.current("cart")
            assert there is not None
            held = {name for kind in (ROUTES, EXTENSION) for name in there.collections[kind].resources}
            assert used <= held
            server.older = {}
            await until(lambda: rollout.state is not None and rollout.state.kept == frozenset())

    asyncio.run(run())


@pytest.mark.parametrize("mode", Mode)
def test_a_proxy_that_ended_before_its_adm_was_withdrawn_has_to_come_back_once(tmp_path: Path, mode: Mode) -> None:
    """It may be cut off from the server alone, and enforce the earlier plan on all that its callers send."""
    text = PROGRAM.replace("SIDE", "ingress")
    first = planned_by(tmp_path / "first.adm", text, mode)
    second = planned_by(tmp_path / "second.adm", "".join(text.splitlines(keepends=True)[:4]), mode)
    third = planned_by(tmp_path / "third.adm", PROGRAM.replace("SIDE", "egress"), mode)
    server, folder = Agreeing(), tmp_path / "state"

    async def run() -> None:
        rollout = await begun(server, first, folder)
        async with following(rollout) as until:
            await until(lambda: is_proven(rollout))
            server.away = {"cart"}
            await rollout.accept(second)
            said = "`cart`: 0 of 1 proxies are connected (its ADM is withdrawn, but a missing proxy may enforce the "
            await until(lambda: said in rollout.text)
            await rollout.accept(third)
            await until(lambda: said in rollout.text and "then a newer plan begins" in rollout.text)
            assert at(rollout) == "second.adm"
            server.away = set()

            def over() -> bool:
                confirm_all(folder)
                return at(rollout) == "third.adm" and not rollout.under_way

            await until(over)
            server.away = {"cart"}
            await rollout.accept(planned_by(tmp_path / "last.adm", PROGRAM.replace("SIDE", "egress") + "\n", mode))
            await until(lambda: at(rollout) == "last.adm" and not rollout.under_way)

    asyncio.run(run())
