"""The files by which the redirection of pods is requested and confirmed. It is requested in each rollout anew: pods may
have been replaced since, and have none."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from typing import TYPE_CHECKING, Final

import pytest

from admc.base.exits import CommandError, wrong_usage
from admc.serve.files.redirection import MAX_LOADED, NAME, Redirection, withdraw
from admc.serve.rollout.model import StepName
from emitters.envoy import Mode
from tests.serve.always_ack import PROGRAM, Agreeing, at, back, begun, close_all, following, hasten, planned_by
from tests.serve.server_process import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from admc.serve.publication.controller import Rollout
    from admc.serve.publication.plans import Planned
    from admc.serve.storage.position import Position
    from tests.serve.always_ack import Until

WITHOUT: Final = PROGRAM.partition("policy")[0]
CART: Final = ("`cart`: its interception",)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    hasten(monkeypatch)
    yield
    close_all()


def planned(folder: Path, side: str) -> Planned:
    return planned_by(folder / f"{side}.adm", PROGRAM.replace("SIDE", side), Mode.REDIRECT)


def confirm(folder: Path, service: str) -> None:
    place = folder / "interception" / service
    (place / "loaded").write_bytes((place / "digest").read_bytes())


def settled(rollout: Rollout) -> bool:
    return not rollout.under_way


@pytest.mark.long
@pytest.mark.parametrize("restarts", [pytest.param(False, marks=pytest.mark.long), True])
def test_prepare_waits_until_the_receivers_rules_are_confirmed(tmp_path: Path, restarts: bool) -> None:
    folder = tmp_path / "state"
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), folder)
        async with following(rollout) as until:
            await until(lambda: settled(rollout))
            await rollout.accept(planned(tmp_path, "ingress"))
            await until(lambda: rollout.waits == CART)
            assert at(rollout) == StepName.PREPARE
            place = folder / "interception" / "cart"
            assert sorted(path.name for path in place.iterdir()) == ["digest", "ip6tables.rules", "iptables.rules"]
            assert not (folder / "interception" / "web").exists()  # the first plan's rules count as loaded
        if restarts:
            rollout = await back(server, folder)
        async with following(rollout) as until:
            await until(lambda: rollout.waits == CART)
            for wrong in (b"", b"yes\n", b"\xff" * 64, b"0" * (MAX_LOADED + 1), (place / "digest").read_bytes()[:-2]):
                (place / "loaded").write_bytes(wrong)
                await asyncio.sleep(0.6)
                assert at(rollout) == StepName.PREPARE
            confirm(folder, "cart")
            await until(lambda: at(rollout) == "ingress.adm")

    asyncio.run(run())


@pytest.mark.long
def test_rules_that_were_loaded_for_an_earlier_rollout_have_to_be_confirmed_again(tmp_path: Path) -> None:
    egress, ingress = planned(tmp_path, "egress"), planned(tmp_path, "ingress")
    folder = tmp_path / "state"
    confirmed: list[str] = []

    async def run() -> None:
        rollout = await begun(Agreeing(), egress, folder)

        async def walk(until: Until, new: Planned, service: str) -> None:
            await rollout.accept(new)
            await until(lambda: rollout.waits == (f"`{service}`: its interception",))
            assert at(rollout) == StepName.PREPARE
            confirm(folder, service)
            await until(lambda: settled(rollout))
            confirmed.append(service)

        async with following(rollout) as until:
            # After each rollout, pods are replaced by others that have the rules of the active plan only.
            for _ in range(2):
                await walk(until, ingress, "cart")
                await walk(until, egress, "web")

    asyncio.run(run())
    assert confirmed == ["cart", "web"] * 2


@pytest.mark.long
def test_rules_that_are_removed_or_changed_are_written_again_and_need_a_new_confirmation(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    place = folder / "interception" / "cart"

    async def run() -> None:
        rollout = await begun(Agreeing(), planned(tmp_path, "egress"), folder)
        await rollout.accept(planned(tmp_path, "ingress"))
        async with following(rollout) as until:
            await until(lambda: rollout.waits == CART)
            rules = {path: path.read_bytes() for path in place.iterdir()}
            assert len(rules) == 3
            for path in rules:
                for spoil in (path.unlink, lambda path=path: path.write_bytes(b"# nothing\n")):
                    digest = (place / "digest").read_bytes()
                    async with rollout._turn:  # the confirmation is of the files as they were before
                        spoil()
                        (place / "loaded").write_bytes(digest)
                    assert await rollout.keep()
                    assert {path: path.read_bytes() for path in place.iterdir()} == rules
            await until(lambda: rollout.waits == CART)
            confirm(folder, "cart")
            await until(lambda: settled(rollout))
            # Once they are loaded, the server does not write them again.
            for path in rules:
                path.unlink()
            assert not await rollout.keep()
            assert not (place / "digest").exists()

    asyncio.run(run())


def test_redirection_that_no_plan_needs_is_not_requested_any_more(tmp_path: Path) -> None:
    none = planned_by(tmp_path / "none.adm", WITHOUT, Mode.REDIRECT)
    folder = tmp_path / "state"

    async def run() -> None:
        rollout = await begun(Agreeing(), none, folder)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: settled(rollout) and at(rollout) == "egress.adm")
            assert "redirection is not confirmed at `web`" in rollout.text
            await rollout.accept(none)
            await until(lambda: settled(rollout) and at(rollout) == "none.adm")
            assert rollout.text == ""
        assert json.loads((folder / NAME).read_text())["asked"] == {}

    asyncio.run(run())


def test_a_plan_that_cannot_be_stored_requests_no_redirection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "state"
    web = folder / "interception" / "web"

    async def run() -> None:
        rollout = await begun(Agreeing(), planned_by(tmp_path / "none.adm", WITHOUT, Mode.REDIRECT), folder)
        store = rollout._store

        async def full(position: Position | None) -> None:
            if position is not None and position.rollout.queued is None:
                raise wrong_usage("ADM803", "no space is left", cause="")
            await store(position)

        monkeypatch.setattr(rollout, "_store", full)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: rollout.waits == ("no space is left",))
            assert at(rollout) == "none.adm"
            assert not web.exists()
            monkeypatch.setattr(rollout, "_store", store)
            await until(lambda: at(rollout) == "egress.adm")
            assert (web / "digest").exists()

    asyncio.run(run())


def test_a_plan_whose_redirection_cannot_be_requested_is_not_published(tmp_path: Path) -> None:
    folder = tmp_path / "state"

    async def run() -> None:
        rollout = await begun(Agreeing(), planned_by(tmp_path / "none.adm", WITHOUT, Mode.REDIRECT), folder)
        (folder / "interception").touch()
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: "cannot write" in "".join(rollout.waits))
            assert at(rollout) == "none.adm"
            (folder / "interception").unlink()
            await until(lambda: settled(rollout) and at(rollout) == "egress.adm")
            assert "redirection is not confirmed at `web`" in rollout.text

    asyncio.run(run())


@pytest.mark.parametrize("name", ["iptables.rules", "ip6tables.rules", "digest"])
def test_rules_that_are_removed_while_no_server_runs_are_requested_again(tmp_path: Path, name: str) -> None:
    some = planned(tmp_path, "egress")
    folder = tmp_path / "state"
    place = folder / "interception" / "web"
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned_by(tmp_path / "none.adm", WITHOUT, Mode.REDIRECT), folder)
        async with following(rollout) as until:
            await rollout.accept(some)
            await until(lambda: settled(rollout) and at(rollout) == "egress.adm")
        (place / name).unlink()
        again = await back(server, folder)
        async with following(again) as until:
            await until(lambda: "redirection is not confirmed at `web`" in again.text)
            assert (place / name).exists()
            assert not await again.keep()
            confirm(folder, "web")
            await until(lambda: again.text == "")

    asyncio.run(run())


@pytest.mark.parametrize("lost", [False, True])
def test_at_rest_a_restarted_server_knows_what_is_loaded_from_its_record_alone(tmp_path: Path, lost: bool) -> None:
    folder = tmp_path / "state"
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), folder)
        async with following(rollout) as until:
            await until(lambda: settled(rollout))
            assert rollout.text == ""
        if lost:
            (folder / NAME).unlink()
        again = await back(server, folder)
        async with following(again) as until:
            await until(lambda: settled(again))
            assert ("redirection is not confirmed at `web`" in again.text) is lost
            if lost:
                confirm(folder, "web")
            await until(lambda: again.text == "")

    asyncio.run(run())


def test_a_lost_record_of_what_is_loaded_has_to_be_confirmed_again(tmp_path: Path) -> None:
    """The old plan needs the rules, too; but the folder does not say that they are loaded."""
    more = "policy r = request_count() on web -> cart\npin r at ingress\n"
    head = PROGRAM.replace("SIDE", "egress")
    plans = [
        planned_by(tmp_path / f"{number}.adm", text, Mode.REDIRECT)
        for number, text in enumerate((head, head + more, PROGRAM.replace("SIDE", "ingress") + more))
    ]
    folder = tmp_path / "state"
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, plans[0], folder)
        async with following(rollout) as until:
            await rollout.accept(plans[1])
            await until(lambda: settled(rollout) and at(rollout) == "1.adm")
            await rollout.accept(plans[2])
            await until(lambda: at(rollout) == StepName.PREPARE)
        (folder / NAME).unlink()
        again = await back(server, folder)
        async with following(again) as until:
            await until(lambda: at(again) == StepName.PREPARE and "interception" in "".join(again.waits))

    asyncio.run(run())


@pytest.mark.long
@pytest.mark.parametrize("restarts", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_removed_folder_is_written_again_with_all_requests_and_records(tmp_path: Path, restarts: bool) -> None:
    folder = tmp_path / "state"
    server = Agreeing()

    def content() -> dict[str, bytes]:
        kept = [folder / NAME, *(folder / "interception").rglob("*")]
        return {str(path.relative_to(folder)): path.read_bytes() for path in kept if path.is_file()}

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "egress"), folder)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "ingress"))
            await until(lambda: rollout.waits == CART)
        if restarts:
            rollout = await back(server, folder)
        async with following(rollout) as until:
            before = content()
            assert before.keys() == {
                *(f"interception/cart/{name}" for name in ("iptables.rules", "ip6tables.rules", "digest")),
                NAME,
            }
            # Another folder takes its place, with the confirmation of rules that were loaded long ago.
            async with rollout._turn:
                digest = (folder / "interception" / "cart" / "digest").read_bytes()
                (folder / "interception").rename(tmp_path / "away")
                (folder / NAME).unlink()
                (folder / "interception" / "cart").mkdir(parents=True)
                (folder / "interception" / "cart" / "loaded").write_bytes(digest)
            assert await rollout.keep()
            assert content() == before
            await until(lambda: rollout.waits == CART)
            confirm(folder, "cart")
            await until(lambda: settled(rollout))
            known = json.loads((folder / NAME).read_text())
            assert known["asked"] == {}
            assert known["redirected"]["cart"]
            # The same while no rollout is under way.
            (folder / NAME).unlink()
            assert await rollout.keep()
            assert json.loads((folder / NAME).read_text()) == known

    asyncio.run(run())


def test_a_pipe_in_place_of_the_record_does_not_block_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / NAME)
    reading = threading.Thread(target=Redirection(tmp_path).load_record, daemon=True)
    reading.start()
    reading.join(SECONDS)
    assert not reading.is_alive()
    assert [record.getMessage() for record in caplog.records] == ["redirection_unknown"]


@pytest.mark.long
@pytest.mark.parametrize("mode", Mode)
def test_without_a_folder_only_a_plan_without_redirection_goes_past_prepare(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: Mode
) -> None:
    caplog.set_level(logging.INFO, "admc.serve")
    old, new = (
        planned_by(tmp_path / f"{side}.adm", PROGRAM.replace("SIDE", side), mode) for side in ("ingress", "egress")
    )

    async def run() -> None:
        rollout = await begun(Agreeing(), old, None, explicit=mode is Mode.EXPLICIT)
        async with following(rollout) as until:
            await rollout.accept(new)
            taken = lambda: settled(rollout) and at(rollout) == "egress.adm"  # noqa: E731
            await until(lambda: "`web`: its interception" in rollout.waits or taken())

    asyncio.run(run())
    steps = [vars(record)["step"] for record in caplog.records if record.getMessage() == "rollout_step"]
    assert steps == (["prepare"] if mode.redirected else [*map(str, StepName), "plan"])


def test_an_error_of_the_system_is_reported_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "interception").touch()
    with pytest.raises(CommandError) as rules:
        withdraw(tmp_path, ("web",))
    assert rules.value.diagnostics[0].cause == "not a directory"
