"""Who loads rules is asked in each transition anew: pods may have been replaced since, and have none."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from admc.serve import feed, groups
from admc.serve.feed import Source
from admc.serve.underway import Planned
from admc.transition.model import Phase
from emitters.envoy import Mode
from tests.serve.agreeing import PROGRAM, Agreeing, begun, following, hasten, phase_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.agreeing import Until


def planned(folder: Path, side: str) -> Planned:
    services = {"web": {"pods": ["10.1.0.2"]}, "cart": {"addresses": ["10.2.0.1"], "pods": ["10.1.0.3"]}}
    path = folder / f"{side}.adm"
    path.write_text(PROGRAM.replace("SIDE", side))
    read = feed.read(Source(path, Mode.REDIRECT), (json.dumps({"services": services}).encode(),), keep=True)
    assert read.state is not None, read.findings
    return Planned(read.state, read.recipe)


def test_what_was_loaded_for_an_earlier_transition_is_not_taken_for_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.1)
    egress, ingress = planned(tmp_path, "egress"), planned(tmp_path, "ingress")
    asked: list[str] = []

    async def run() -> None:
        moving = await begun(Agreeing(), egress, tmp_path)

        async def walk(until: Until, old: Planned, new: Planned, service: str) -> None:
            await moving.change(old, new, groups.snapshots(new.state))
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
