"""If a proxy rejects a step back, the transition turns forward again, and the newer plan begins after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from admc.serve.build import snapshots as groups
from admc.serve.state_dir import rollout_record
from admc.transition.driver import TAKING_OVER
from admc.transition.model import Phase
from tests.serve.always_ack import PROGRAM, Agreeing, begun, following, hasten, phase_of, planned_by

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest
    from admc.serve.rollout.underway import Planned


class _Stubborn(Agreeing):
    """The proxy of one service keeps its configuration, and sends a NACK for every other one."""

    def __init__(self) -> None:
        super().__init__()
        self.stays: dict[str, str] = {}

    def stay(self, service: str) -> None:
        found = self.store.current(service)
        assert found is not None
        self.stays[service] = found.version

    def views(self, groups: Iterable[str]) -> tuple[Any, ...]:
        found = super().views(groups)
        for client in found:
            if client.group in self.stays:
                client.refuses = client.acknowledged != self.stays[client.group]
                client.acknowledged = self.stays[client.group]
        return found


def test_a_newer_plan_goes_forward_again_where_the_way_back_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, 0.1)
    once = PROGRAM.replace("set_request_header", "add_request_header")

    def plan(side: str, value: str) -> Planned:
        return planned_by(tmp_path / f"{side}-{value}.adm", once.replace("SIDE", side).replace("gold", value))

    old, new = plan("egress", "gold"), plan("ingress", "gold")
    newer, last = plan("egress", "silver"), plan("egress", "bronze")
    server = _Stubborn()

    async def run() -> None:
        moving = await begun(server, old, tmp_path)
        await moving.change(old, new, groups.snapshots(new.state))
        async with following(moving) as until:
            await until(lambda: phase_of(moving) is Phase.RECEIVERS and moving.waits == (TAKING_OVER,))
            server.stay("cart")
            await moving.change(new, newer, groups.snapshots(newer.state))
            refused = "`cart`: 1 of 1 proxies refused it (a newer plan mends that)"
            await until(lambda: moving.waits == (refused,))
            assert phase_of(moving) is Phase.SENDERS
            assert moving.said.startswith(
                "a newer plan has come, and the one before it is undone first: step `senders`"
            )
            assert refused in moving.said
            await moving.change(newer, last, groups.snapshots(last.state))
            assert phase_of(moving) is Phase.RECEIVERS
            kept = rollout_record.read(tmp_path)
            assert kept is not None
            assert (kept.at, kept.back) == (list(Phase).index(Phase.RECEIVERS), False)
            assert moving.underway is not None
            assert moving.underway.new.state is new.state
            server.stays.clear()
            await until(lambda: moving.underway is not None and moving.underway.new.state is last.state)
            assert moving.underway.old.state is new.state
            await until(lambda: moving.underway is None)
        found = server.store.current("web")
        assert found is not None
        assert found.version == groups.snapshots(last.state).by_service["web"].version

    asyncio.run(run())
