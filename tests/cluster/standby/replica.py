"""A replica as a process of its own: it stands by, and takes one step after the other while it is active.

    python -m tests.cluster.standby.replica KUBECONFIG INSTALLATION NAME ADDRESS DURATION

Each line of its standard output is an event with the time of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from admc.base.exits import CommandError
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.lease import LeaseHolder
from admc.kubernetes.cluster.standby.address import ActiveAddress
from admc.kubernetes.cluster.standby.standby import Standby
from admc.kubernetes.cluster.standby.state_follower import StateFollower
from admc.kubernetes.cluster.storage.record import Names
from admc.kubernetes.cluster.storage.secrets import Secrets
from admc.kubernetes.cluster.storage.storage import SecretStorage
from tests.cluster.storage.secrets_of import moving

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.requests import Api
    from admc.serve.storage.position import Position, StoredState

STEP_SECONDS = 0.2


def say(event: str, **fields: object) -> None:
    print(json.dumps({"at": time.monotonic(), "event": event, **fields}), flush=True)


def step_of(number: int) -> Position:
    found = moving("a")
    now = replace(found.rollout.now, move=number)
    held = tuple(replace(each, label=now) if each.label.goal else each for each in found.rollout.may_have)
    return found._replace(rollout=type(found.rollout)(now, held, moves=number, secret=bytes(32)))


class Process:
    def __init__(self, api: Api, installation: str, name: str, address: str, duration: float) -> None:
        names = Names(installation, "default")
        identity = f"{name}_{uuid.uuid4().hex[:8]}"
        path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/admc-{installation}"
        self.secrets = Secrets(api, names, self.may_act)
        self.storage = SecretStorage(self.secrets, names, identity, self.superseded)
        self.lease = LeaseHolder(api, path, identity, duration, is_first=self._is_first)
        self.kept = StateFollower(self.storage, self._prepare)
        self.address = ActiveAddress(api, "default", installation, (address, 15010), self.may_act)
        self.names = names
        self.standby = Standby(
            self.lease, keep_ready=self.kept.follow, keep_address=self.address.keep, end_streams=self._end_streams
        )

    def may_act(self) -> bool:
        return self.standby.may_act()

    def superseded(self, why: str) -> None:
        self.standby.superseded(why)

    async def _is_first(self) -> bool:
        return await self.secrets.get(self.names.state) is None

    async def _prepare(self, state: StoredState | None) -> None:
        if state is not None and state.position is not None:
            say("ready", step=state.position.rollout.moves)

    async def _end_streams(self) -> None:
        say("streams ended")

    async def serve(self) -> int:
        say("active")
        found = await asyncio.to_thread(self.storage.load)
        number = 0 if found is None or found.position is None else found.position.rollout.moves
        say("loaded", step=number)
        while True:
            await asyncio.sleep(STEP_SECONDS)
            if self.may_act():
                try:
                    await asyncio.to_thread(self.storage.save_as_owner, step_of(number + 1), {})
                except CommandError as error:
                    say("not stored", why=str(error.diagnostics[0].cause))
                    continue
                number += 1
                if self.may_act():
                    say("published", step=number)


async def main(kubeconfig: str, installation: str, name: str, address: str, duration: str) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    async with await connect(Path(kubeconfig)) as api:
        process = Process(api, installation, name, address, float(duration))
        try:
            return await process.standby.run(process.serve)
        except CommandError as error:
            say("ends", why=error.diagnostics[0].cause)
            return error.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
