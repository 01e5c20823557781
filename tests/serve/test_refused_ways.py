"""A plan to which there is no way is refused when it comes, and not when its turn comes: what follows is made from what
is in force."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from admc.exits import CommandError
from admc.serve.build import snapshots
from admc.transition.model import Phase
from tests.serve.always_ack import Agreeing, begun, following, hasten, phase_of, planned_by

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.rollout.underway import Planned

APP = """\
app shop
service web, shop, cart, guard { http 8080 }
call web -> cart
call cart, web -> guard
"""
ONCE = 'add_request_header(name: "x-once", value: "1")'


def planned(folder: Path, asks: str, q: str, r: str) -> Planned:
    """For `p` an ADM asks `guard`, that of `web` or of `cart`; `q` and `r` are on calls of these two to `guard`."""
    policies = (
        f"@{asks}\npolicy p = external_authorization(service: guard) on web -> cart\n"
        f"policy q = {ONCE} on cart -> guard\npin q at {q}\npolicy r = {ONCE} on web -> guard\npin r at {r}\n"
    )
    return planned_by(folder / f"{asks}-{q}-{r}.adm", APP + policies)


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.SENDERS])
def test_a_newer_plan_that_no_way_leads_to_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    hasten(monkeypatch, 0.1)
    first = planned(tmp_path, "ingress", "ingress", "egress")
    second = planned(tmp_path, "ingress", "ingress", "ingress")
    # From the first one: `r` would have to come before `web` begins to ask, and `q` to go after `cart` has stopped.
    third = planned(tmp_path, "egress", "egress", "ingress")
    server = Agreeing()

    async def run() -> None:
        moving = await begun(server, first, tmp_path)
        await moving.change(first, second, snapshots.snapshots(second.state))
        async with following(moving) as until:
            await until(lambda: phase_of(moving) is phase)
            with pytest.raises(CommandError) as refused:
                await moving.change(second, third, snapshots.snapshots(third.state))
            assert [item.code for item in refused.value.diagnostics] == ["ADM855"]
            assert moving.underway is not None
            assert not moving.underway.walk.back
            await until(lambda: moving.underway is None)
            await moving.change(second, third, snapshots.snapshots(third.state))  # from there is a way

    asyncio.run(run())
