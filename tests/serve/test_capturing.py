"""Who loads rules is asked in each transition anew: pods may have been replaced since, and have none."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from typing import TYPE_CHECKING

import pytest
from admc.serve.rollout.underway import Planned

from admc.exits import CommandError
from admc.serve.build import snapshots, source
from admc.serve.build.source import Source
from admc.serve.rollout.redirection import NAME, Capturing, Rules, write
from admc.serve.state_dir import rollout_record as record
from admc.transition.model import Phase
from emitters.envoy import Mode
from tests.serve.always_ack import PROGRAM, Agreeing, back, begun, following, hasten, phase_of, planned_by
from tests.serve.server_process import SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.always_ack import Until


def planned(folder: Path, side: str) -> Planned:
    services = {"web": {"pods": ["10.1.0.2"]}, "cart": {"addresses": ["10.2.0.1"], "pods": ["10.1.0.3"]}}
    path = folder / f"{side}.adm"
    path.write_text(PROGRAM.replace("SIDE", side))
    read = source.read(Source(path, Mode.REDIRECT), (json.dumps({"services": services}).encode(),), with_recipe=True)
    assert read.state is not None, read.findings
    return Planned(read.state, read.recipe)


@pytest.mark.long
def test_what_was_loaded_for_an_earlier_transition_is_not_taken_for_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.1)
    egress, ingress = planned(tmp_path, "egress"), planned(tmp_path, "ingress")
    asked: list[str] = []

    async def run() -> None:
        moving = await begun(Agreeing(), egress, tmp_path)

        async def walk(until: Until, old: Planned, new: Planned, service: str) -> None:
            await moving.change(old, new, snapshots.snapshots(new.state))
            await until(lambda: moving.waits == (f"`{service}`: its interception",))
            assert phase_of(moving) is Phase.PREPARE
            place = tmp_path / "interception" / service
            (place / "loaded").write_bytes((place / "digest").read_bytes())
            await until(lambda: moving.underway is None)
            asked.append(service)

        async with following(moving) as until:
            # After each walk pods are replaced by others that have the rules of the plan in force, and no more.
            for _ in range(2):
                await walk(until, egress, ingress, "cart")
                await walk(until, ingress, egress, "web")

    asyncio.run(run())
    assert asked == ["cart", "web"] * 2


def test_rules_that_somebody_removes_or_changes_are_written_again_and_what_was_said_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.1)
    egress, ingress = planned(tmp_path, "egress"), planned(tmp_path, "ingress")
    place = tmp_path / "interception" / "cart"

    async def run() -> None:
        moving = await begun(Agreeing(), egress, tmp_path)
        await moving.change(egress, ingress, snapshots.snapshots(ingress.state))
        async with following(moving) as until:
            await until(lambda: moving.waits == ("`cart`: its interception",))
            rules = {path: path.read_bytes() for path in place.iterdir()}
            assert len(rules) == 3
            for path in rules:
                for spoil in (path.unlink, lambda path=path: path.write_bytes(b"# nothing\n")):
                    digest = (place / "digest").read_bytes()
                    async with moving._turn:  # whoever loads them has read what was there before that
                        spoil()
                        (place / "loaded").write_bytes(digest)
                    assert await moving.keep(anew=False)
                    assert {path: path.read_bytes() for path in place.iterdir()} == rules
            await until(lambda: moving.waits == ("`cart`: its interception",))
            (place / "loaded").write_bytes((place / "digest").read_bytes())
            await until(lambda: moving.underway is None)
            # Once they are loaded they are nobody's concern.
            for path in rules:
                path.unlink()
            assert not await moving.keep(anew=False)
            assert not (place / "digest").exists()

    asyncio.run(run())


def test_what_no_plan_needs_any_more_is_asked_for_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, 0.1)
    without = PROGRAM.partition("policy")[0]
    plans = [planned_by(tmp_path / "none.adm", without, Mode.REDIRECT), planned(tmp_path, "egress")]

    async def run() -> None:
        moving = await begun(Agreeing(), plans[0], tmp_path)
        async with following(moving) as until:
            await moving.change(*plans, snapshots.snapshots(plans[1].state))
            await until(lambda: moving.underway is None)
            assert "nobody has said that all redirection is loaded at `web`" in moving.said
            await moving.change(*plans[::-1], snapshots.snapshots(plans[0].state))
            await until(lambda: moving.underway is None)
            assert moving.said == ""
        assert json.loads((tmp_path / "redirected.json").read_text())["asked"] == {}

    asyncio.run(run())


@pytest.mark.parametrize("name", ["iptables.rules", "ip6tables.rules", "digest"])
def test_rules_that_go_while_no_server_runs_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    hasten(monkeypatch, 0.1)
    without = PROGRAM.partition("policy")[0]
    none, some = planned_by(tmp_path / "none.adm", without, Mode.REDIRECT), planned(tmp_path, "egress")
    place = tmp_path / "interception" / "web"

    async def run() -> None:
        moving = await begun(Agreeing(), none, tmp_path)
        async with following(moving) as until:
            await moving.change(none, some, snapshots.snapshots(some.state))
            await until(lambda: moving.underway is None)
        (place / name).unlink()
        again = await begun(Agreeing(), some, tmp_path)
        async with following(again) as until:
            await until(lambda: "redirection is loaded at `web`" in again.said)
            assert await again.keep(anew=False, force=some.state)
            assert not await again.keep(anew=False, force=some.state)
            (place / "loaded").write_bytes((place / "digest").read_bytes())
            await until(lambda: again.said == "")
            assert (place / name).exists()

    asyncio.run(run())


def test_what_is_known_to_be_loaded_and_goes_while_no_server_runs_has_to_be_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old plan needs it; but nobody has ever said that it is there."""
    hasten(monkeypatch, 0.1)
    more = "policy r = request_count() on web -> cart\npin r at ingress\n"
    head = PROGRAM.replace("SIDE", "egress")
    plans = [
        planned_by(tmp_path / f"{number}.adm", text, Mode.REDIRECT)
        for number, text in enumerate((head, head + more, PROGRAM.replace("SIDE", "ingress") + more))
    ]

    async def run() -> None:
        server = Agreeing()
        moving = await begun(server, plans[0], tmp_path)
        async with following(moving) as until:
            await moving.change(plans[0], plans[1], snapshots.snapshots(plans[1].state))
            await until(lambda: moving.underway is None)
            await moving.change(plans[1], plans[2], snapshots.snapshots(plans[2].state))
        (tmp_path / "redirected.json").unlink()
        again = await back(moving, tmp_path, plans[1], plans[2])
        async with following(again) as until:
            await until(lambda: phase_of(again) is Phase.PREPARE and "interception" in "".join(again.waits))

    asyncio.run(run())


def test_a_pipe_in_place_of_what_is_known_keeps_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / NAME)
    reading = threading.Thread(target=Capturing(tmp_path).recall, daemon=True)
    reading.start()
    reading.join(SECONDS)
    assert not reading.is_alive()
    assert [record.getMessage() for record in caplog.records] == ["redirection_unknown"]


@pytest.mark.parametrize("mode", Mode)
def test_a_step_says_what_is_to_be_redirected_only_where_connections_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: Mode
) -> None:
    hasten(monkeypatch, 0.0)
    caplog.set_level(logging.INFO, "admc.serve")
    sides = {side: PROGRAM.replace("SIDE", side) for side in ("ingress", "egress")}
    old, new = (planned_by(tmp_path / f"{side}.adm", text, mode) for side, text in sides.items())

    async def run() -> None:
        moving = await begun(Agreeing(), old, None)
        async with following(moving) as until:
            await moving.change(old, new, snapshots.snapshots(new.state))
            # With redirection nobody can say that it is loaded, so it goes no further.
            await until(lambda: "`web`: its interception" in moving.waits or moving.underway is None)

    asyncio.run(run())
    steps = [record for record in caplog.records if record.getMessage() == "transition_step"]
    assert {vars(step)["phase"] for step in steps} == set(
        (Phase.ANNOUNCE, Phase.PREPARE) if mode is Mode.REDIRECT else Phase
    )
    said = {name: vars(step)[name] for step in steps for name in ("intercept", "release") if name in vars(step)}
    assert said == ({"intercept": ["web"]} if mode is Mode.REDIRECT else {})


def test_what_the_system_says_is_said_as_all_else(tmp_path: Path) -> None:
    (tmp_path / "interception").touch()
    (tmp_path / record.NAME).mkdir()
    with pytest.raises(CommandError) as rules:
        write(tmp_path, {"web": Rules({}, "")})
    with pytest.raises(CommandError) as step:
        record.write(tmp_path, None)
    assert [error.value.diagnostics[0].cause for error in (rules, step)] == ["not a directory", "is a directory"]
