"""Replicas against an API whose requests fail, hang and take effect late, in time that passes at once: never do two
hold the Lease, and one holds it again soon after the faults are over."""

from __future__ import annotations

import asyncio
import random
import selectors
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.api.lease import DEADLINE, LeaseHolder, ObservedLease, observed, taken

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from admc.kubernetes.cluster.api.body import Document

PATH = "/apis/coordination.k8s.io/v1/namespaces/a/leases/admc-it"
DURATION = 15.0


class _Instant(selectors.DefaultSelector):  # type: ignore[valid-type, misc]
    """Waits no time: it moves the loop's clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return super().select(0)  # type: ignore[no-any-return]


def _run(main: Coroutine[Any, Any, None]) -> None:
    selector = _Instant()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


class _Cluster:
    """One Lease, with the API server's rules for versions."""

    def __init__(self) -> None:
        self.document: Document | None = None
        self._version = 0

    def put(self, body: Document, *, create: bool) -> Document:
        there = self.document
        if create and there is not None:
            raise ApiError(409, "AlreadyExists", "it is there")
        if not create and there is None:
            raise ApiError(404, "NotFound", "it is not there")
        if there is not None and body["metadata"].get("resourceVersion") != there["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it was modified")
        if there is None or there["spec"] != body["spec"]:
            self._version += 1
        self.document = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        return self.document


class _Api:
    """A replica's way to the cluster. `faults` is how many of its requests go wrong, from 0 to 1."""

    def __init__(self, cluster: _Cluster, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance
        self.faults = 0.0
        self.requests = 0

    async def _travel(self) -> None:
        await asyncio.sleep(self._chance.expovariate(100))
        if self._chance.random() < self.faults:
            if self._chance.random() < 0.3:
                raise ApiError(0, "Connection", "cut")
            await asyncio.sleep(self._chance.uniform(0, 3 * DURATION))

    async def get(self, path: str, **_: object) -> Document:
        self.requests += 1
        await self._travel()
        if self._cluster.document is None:
            raise ApiError(404, "NotFound", "it is not there")
        found = self._cluster.document
        await self._travel()
        return found

    async def create(self, path: str, body: Document) -> Document:
        assert path == PATH.rpartition("/")[0]
        return await self._write(body, create=True)

    async def replace(self, path: str, body: Document) -> Document:
        assert path == PATH
        return await self._write(body, create=False)

    async def _write(self, body: Document, *, create: bool) -> Document:
        """It reaches the cluster even if the caller does not wait for it any more."""
        self.requests += 1

        async def arrive() -> Document:
            await self._travel()
            return self._cluster.put(body, create=create)

        arriving = asyncio.create_task(arrive())
        arriving.add_done_callback(lambda task: task.cancelled() or task.exception())
        found = await asyncio.shield(arriving)
        await self._travel()
        return found


class _Replica:
    """A process that starts anew, with another identity, when it has to exit."""

    def __init__(self, name: str, api: _Api) -> None:
        self._name, self.api = name, api
        self.starts = 0
        self.holder = self._new()

    def _new(self) -> LeaseHolder:
        self.starts += 1
        return LeaseHolder(self.api, PATH, f"{self._name}-{self.starts}", DURATION, clock=_now)

    async def run(self) -> None:
        while True:
            await self.holder.run()
            self.holder = self._new()


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(each, marks=pytest.mark.long) for each in range(15, 60))])
def test_two_replicas_never_hold_it_whatever_becomes_of_requests(seed: int) -> None:
    async def main() -> None:
        chance, cluster = _chance(seed), _Cluster()
        replicas = [_Replica(name, _Api(cluster, chance)) for name in "abc"]
        tasks = [asyncio.create_task(replica.run()) for replica in replicas]
        held_for = 0
        for _ in range(2000):
            if chance.random() < 0.02:
                for replica in replicas:
                    replica.api.faults = chance.choice((0.0, 0.0, 0.3, 0.9, 1.0))
            await asyncio.sleep(chance.uniform(0, 0.5))
            holders = [replica for replica in replicas if replica.holder.held]
            assert len(holders) <= 1
            held_for += len(holders)
        assert held_for > 200
        for replica in replicas:
            replica.api.faults = 0.0
        await asyncio.sleep(4 * DURATION)
        assert [replica.holder.held for replica in replicas].count(True) == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    _run(main())


def test_a_renewal_is_one_request_and_takes_over_no_earlier_than_the_end() -> None:
    async def main() -> None:
        cluster, chance = _Cluster(), _chance(1)
        first, second = (LeaseHolder(_Api(cluster, chance), PATH, name, DURATION, clock=_now) for name in "ab")
        running = asyncio.create_task(first.run())
        await first.until_held()
        waiting = asyncio.create_task(second.run())
        before = first._api.requests  # type: ignore[attr-defined]
        await asyncio.sleep(10 * DURATION)
        assert first.held
        assert not second.held
        assert second.holder == "a"
        assert 40 <= first._api.requests - before <= 51  # type: ignore[attr-defined]
        running.cancel()
        stopped = _now()
        await first.until_lapsed()
        assert not first.held
        assert 6 < _now() - stopped <= DURATION * DEADLINE
        assert not second.held
        await second.until_held()
        assert _now() - stopped < DURATION + 4
        document = cluster.document
        assert document is not None
        assert (document["spec"]["holderIdentity"], document["spec"]["leaseTransitions"]) == ("b", 1)
        waiting.cancel()

    _run(main())


def test_it_is_held_from_the_moment_at_which_the_renewal_began() -> None:
    """The answer is late, and others may have seen the renewal long before it."""

    async def main() -> None:
        cluster, late = _Cluster(), 2.5

        class Late(_Api):
            async def _write(self, body: Document, *, create: bool) -> Document:
                found = cluster.put(body, create=create)
                await asyncio.sleep(late)
                return found

        holder = LeaseHolder(Late(cluster, _chance(1)), PATH, "a", DURATION, clock=_now)
        running = asyncio.create_task(holder.run())
        await holder.until_held()
        assert DURATION * DEADLINE - late - 0.5 < holder.left <= DURATION * DEADLINE - late
        running.cancel()

    _run(main())


def test_a_released_lease_is_taken_at_the_next_look() -> None:
    async def main() -> None:
        cluster, chance = _Cluster(), _chance(1)
        first, second = (LeaseHolder(_Api(cluster, chance), PATH, name, DURATION, clock=_now) for name in "ab")
        running = asyncio.create_task(first.run())
        await first.until_held()
        waiting = asyncio.create_task(second.run())
        await asyncio.sleep(5)
        running.cancel()
        await first.release()
        assert not first.held
        released = _now()
        await second.until_held()
        assert _now() - released < 4
        waiting.cancel()

    _run(main())


@pytest.mark.parametrize("after", [0.0, 0.7, 1.4, 2.9])
def test_a_lease_that_is_given_up_in_the_middle_of_a_renewal_is_not_held_again(after: float) -> None:
    """Each request takes 0.6 s on its way there, and 0.6 s on its way back."""

    async def main() -> None:
        cluster = _Cluster()

        class Slow(_Api):
            async def _travel(self) -> None:
                await asyncio.sleep(0.6)

        first = LeaseHolder(Slow(cluster, _chance(1)), PATH, "a", DURATION, clock=_now)
        second = LeaseHolder(_Api(cluster, _chance(2)), PATH, "b", DURATION, clock=_now)
        running = asyncio.create_task(first.run())
        await first.until_held()
        waiting = asyncio.create_task(second.run())
        await asyncio.sleep(after)
        release = asyncio.create_task(first.release())
        given_up = _now()
        while not second.held:
            await asyncio.sleep(0.05)
            assert not first.held
        assert _now() - given_up < 5
        await asyncio.gather(running, release)
        assert cluster.document is not None
        assert cluster.document["spec"]["holderIdentity"] == "b"
        waiting.cancel()

    _run(main())


def test_one_that_held_it_returns_when_another_holds_it() -> None:
    async def main() -> None:
        cluster, chance = _Cluster(), _chance(1)
        first, second = (LeaseHolder(_Api(cluster, chance), PATH, name, DURATION, clock=_now) for name in "ab")
        running = asyncio.create_task(first.run())
        await first.until_held()
        first._api.faults = 1.0  # type: ignore[attr-defined]
        waiting = asyncio.create_task(second.run())
        await second.until_held()
        assert not first.held
        assert not running.done()
        first._api.faults = 0.0  # type: ignore[attr-defined]
        await asyncio.wait_for(running, DURATION)
        assert first.holder == "b"
        waiting.cancel()

    _run(main())


def test_a_lease_that_is_edited_to_another_holder_is_lost_at_once() -> None:
    async def main() -> None:
        cluster = _Cluster()
        first = LeaseHolder(_Api(cluster, _chance(1)), PATH, "a", DURATION, clock=_now)
        running = asyncio.create_task(first.run())
        await first.until_held()
        assert cluster.document is not None
        cluster.put({**cluster.document, "spec": {"holderIdentity": "by hand"}}, create=False)
        await asyncio.wait_for(running, 4)
        assert not first.held

    _run(main())


def test_a_deleted_lease_is_not_taken_while_its_holder_may_hold_it() -> None:
    async def main() -> None:
        cluster, chance = _Cluster(), _chance(1)
        first, second = (LeaseHolder(_Api(cluster, chance), PATH, name, DURATION, clock=_now) for name in "ab")
        running = asyncio.create_task(first.run())
        await first.until_held()
        waiting = asyncio.create_task(second.run())
        await asyncio.sleep(5)
        running.cancel()  # the holder does not see it
        cluster.document = None
        while not second.held:
            assert not (first.held and second.held)
            await asyncio.sleep(0.1)
        assert not first.held
        waiting.cancel()

    _run(main())


def test_wall_clocks_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand still here, so each renewal has to make a difference by itself."""
    from datetime import datetime

    class Still(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Still:
            return cls(2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr("admc.kubernetes.cluster.api.lease.datetime", Still)
    test_a_renewal_is_one_request_and_takes_over_no_earlier_than_the_end()


def _lease(version: str, **spec: object) -> Document:
    return {"metadata": {"name": "x", "resourceVersion": version}, "spec": spec}


def test_time_runs_only_while_the_object_is_the_same() -> None:
    first = observed(None, _lease("1", holderIdentity="a", leaseDurationSeconds=10), 100.0)
    same = observed(first, _lease("1", holderIdentity="a", leaseDurationSeconds=10), 105.0)
    assert same.since == 100.0
    assert not same.is_free(109.9, 2)  # the holder's own duration counts
    assert same.is_free(110.0, 2)
    assert not same.is_free(110.0, 15)  # and ours
    renewed = observed(same, _lease("2", holderIdentity="a", leaseDurationSeconds=10), 107.0)
    assert renewed.since == 107.0
    gone = observed(renewed, None, 109.0)
    # It may have been renewed until it was deleted.
    assert gone == ObservedLease(renewed.document, 109.0, is_gone=True)
    assert observed(gone, None, 111.0) == gone
    assert observed(None, None, 1.0) == ObservedLease({}, 1.0, is_gone=True)


@pytest.mark.parametrize("lasts", [None, 0, -1, "x", 1e9])
def test_a_lease_without_a_duration_has_ours(lasts: object) -> None:
    seen = ObservedLease(_lease("1", holderIdentity="a", leaseDurationSeconds=lasts), 0.0)
    assert not seen.is_free(DURATION - 0.1, DURATION)
    assert seen.is_free(DURATION, DURATION)


def test_what_is_written_says_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    now: datetime = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    made = taken(_lease("1"), "a", 14.5, now)["spec"]
    stamp = "2026-01-02T03:04:05.000006Z"
    assert made == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": stamp,
        "renewTime": stamp,
        "leaseTransitions": 0,
    }
    again = taken(_lease("2", **made), "a", 14.5, now)["spec"]
    assert again == made | {"renewTime": "2026-01-02T03:04:05.000007Z"}
    other = taken(_lease("3", **again), "b", 14.5, now.replace(hour=2))["spec"]
    assert (other["leaseTransitions"], other["acquireTime"]) == (1, "2026-01-02T02:04:05.000006Z")
