"""Whatever becomes of requests, clocks and processes: two replicas are never active, and no step is taken twice."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.base.exits import CommandError
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.api.lease import ATTEMPT, DEADLINE, DURATION_SECONDS, LeaseHolder
from admc.kubernetes.cluster.standby.standby import Standby
from admc.kubernetes.cluster.storage.record import INDEX, Document, Names, content_of, writer_of
from admc.kubernetes.cluster.storage.secrets import NotHolderError, Secrets
from admc.kubernetes.cluster.storage.state_secret import StateSecret, SupersededError
from tests.cluster.memory_api import MemoryApi
from tests.cluster.standby.simulated import Clock, FaultyApi, chance, now, run

if TYPE_CHECKING:
    import random

PATH = "/apis/coordination.k8s.io/v1/namespaces/admc/leases/admc-mesh"
NAMES = Names("mesh", "admc")
RATE = 0.01
"""By how much a clock may be too fast or too slow."""
EFFECT = DURATION_SECONDS * (1 - RATE) - DURATION_SECONDS * DEADLINE * (1 + RATE)
"""How long after a check an act may take effect, by the inequality."""


def test_the_margin_is_as_documented() -> None:
    assert pytest.approx(4.75) == EFFECT
    # A renewal that hangs, and the next one that hangs, too, end before the deadline; the third is not needed.
    assert 2 * DURATION_SECONDS * ATTEMPT + DURATION_SECONDS * ATTEMPT / 4 < DURATION_SECONDS * DEADLINE


class Published(NamedTuple):
    replica: str
    step: int


class Mesh(MemoryApi):
    """The cluster, with what replicas have stored there, and what they have published."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[Published] = []
        self.stored: list[Published] = []

    def _put(self, name: str, body: Document, uid: str) -> Document:
        step = int(content_of(body, INDEX) or b"0")
        if name.endswith(NAMES.state):
            self.stored.append(Published(writer_of(body), step))
        return super()._put(name, body, uid)

    def check(self) -> None:
        """Each step is taken by one replica, after the one before it; what proxies receive never goes back."""
        for before, after in pairwise(self.stored):
            own = before.replica == after.replica
            # Another replica begins with a claim, which changes nothing; a lost answer makes one store it again.
            assert after.step in ({before.step, before.step + 1} if own else {before.step}), self.stored
        steps = [each.step for each in self.published]
        assert steps == sorted(steps)


class Replica:
    """A process that takes one step after the other while it is active, and starts anew when it has to exit.

    It does what the server does: claim and read, publish what was stored, store the next step, publish it.
    """

    def __init__(self, name: str, mesh: Mesh, own: random.Random) -> None:
        self._name, self._mesh, self._own = name, mesh, own
        self.api = FaultyApi(mesh, own)
        self._clock = Clock(own, RATE)
        self.starts = 0
        self.exits: list[str] = []
        self.standby: Standby | None = None

    @property
    def identity(self) -> str:
        return f"{self._name}-{self.starts}"

    async def run(self) -> None:
        while True:
            self.starts += 1
            lease = LeaseHolder(self.api, PATH, self.identity, is_first=self._is_first, clock=self._clock)
            self.standby = standby = Standby(
                lease, keep_ready=_forever, keep_address=_forever, end_streams=lambda: asyncio.sleep(0)
            )
            try:
                await standby.run(self._serve)
            except CommandError as error:
                self.exits.append(error.diagnostics[0].code)
            await asyncio.sleep(self._own.uniform(0.1, 5))

    async def _is_first(self) -> bool:
        try:
            await self.api.get(f"{NAMES.collection}/{NAMES.state}")
        except ApiError as error:
            return error.is_not_found
        return False

    async def _serve(self) -> int:
        standby = self.standby
        assert standby is not None
        secret = StateSecret(Secrets(self.api, NAMES, standby.may_act), NAMES, self.identity)
        step = await self._claimed(secret)
        while True:
            if standby.may_act():
                # An act may be late by as much as the inequality allows.
                await asyncio.sleep(self._own.uniform(0, EFFECT * 0.95) if self._own.random() < 0.1 else 0.0)
                self._mesh.published.append(Published(self.identity, step))
            await asyncio.sleep(self._own.uniform(0.1, 3))
            try:
                await secret.replace(str(step + 1).encode())
            except SupersededError as error:
                standby.superseded(str(error))
                await asyncio.sleep(1000)
            except (ApiError, NotHolderError):
                continue
            step += 1
            if self._own.random() < 0.01:  # SIGTERM
                await standby.resign()
                assert not standby.may_act()
                await asyncio.sleep(self._own.uniform(0, 10))  # its streams end
                return 0

    async def _claimed(self, secret: StateSecret) -> int:
        while True:
            try:
                return int(content_of(await secret.claim(), INDEX) or b"0")
            except (ApiError, NotHolderError):
                await asyncio.sleep(0.5)


async def _forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(each, marks=pytest.mark.long) for each in range(15, 60))])
def test_two_are_never_active_and_no_step_is_taken_twice(seed: int) -> None:
    async def main() -> None:
        own, mesh = chance(seed), Mesh()
        replicas = [Replica(name, mesh, own) for name in "abc"]
        tasks = [asyncio.create_task(replica.run()) for replica in replicas]
        for _ in range(600):
            for replica in replicas:
                if own.random() < 0.02:
                    replica.api.faults = own.choice((0.0, 0.0, 0.3, 0.9, 1.0))
                if own.random() < 0.005:
                    replica.api.paused_until = now() + own.uniform(1, 60)
            await asyncio.sleep(own.uniform(0, 1))
            active = [each for each in replicas if each.standby is not None and each.standby.may_act()]
            assert len(active) <= 1
        for replica in replicas:
            replica.api.faults = replica.api.paused_until = 0.0
        before = len(mesh.stored)
        await asyncio.sleep(90)
        assert len(mesh.stored) > before, "no replica serves although the faults are over"
        assert all(not task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        mesh.check()
        assert {code for replica in replicas for code in replica.exits} <= {"ADM952"}

    run(main())
