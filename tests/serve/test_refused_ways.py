"""A plan to which there is no way is refused when it comes, and not when its turn comes: what follows is made from what
is in force."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from admc.exits import CommandError
from admc.serve import groups
from admc.transition.model import Phase
from tests.serve.agreeing import Agreeing, begun, following, hasten, phase_of, planned_by

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.underway import Planned

PROGRAM = """\
app shop
service web, shop, copy { http 8080 }
service cart            { http 8081 }
call web -> cart, copy
call shop -> cart
policy p = set_request_header(name: "x-tier", value: "gold") on shop -> cart
pin p at SIDE
"""


def planned(folder: Path, side: str, first: int) -> Planned:
    """With five matches, each of which may hold together with any other."""
    copies = "".join(
        f'policy m{number} = mirror(to: copy) on web -> cart when header("x-{number}") == "1"\n'
        for number in range(first, first + 5)
    )
    return planned_by(folder / f"{side}-{first}.adm", PROGRAM.replace("SIDE", side) + copies)


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.SENDERS])
def test_a_newer_plan_that_no_way_leads_to_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    hasten(monkeypatch, 0.1)
    first, second = planned(tmp_path, "ingress", 0), planned(tmp_path, "egress", 0)
    # While `p` changes sides there are the matches of both plans: more than routes can be made for.
    third = planned(tmp_path, "egress", 5)
    server = Agreeing()

    async def run() -> None:
        moving = await begun(server, first, tmp_path)
        await moving.change(first, second, groups.snapshots(second.state))
        async with following(moving) as until:
            await until(lambda: phase_of(moving) is phase)
            with pytest.raises(CommandError) as refused:
                await moving.change(second, third, groups.snapshots(third.state))
            assert [item.code for item in refused.value.diagnostics] == ["ADM701"]
            assert moving.underway is not None
            assert not moving.underway.walk.back
            await until(lambda: moving.underway is None)
            await moving.change(second, third, groups.snapshots(third.state))  # from there it is no move

    asyncio.run(run())
