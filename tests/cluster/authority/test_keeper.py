"""The Secret of the authority: who writes it, and what replicas make of one that changed, is gone or cannot be used."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.authority import keeper as keeping
from admc.kubernetes.cluster.authority.authorities import AuthorityError
from admc.kubernetes.cluster.authority.keeper import AuthorityKeeper
from admc.kubernetes.cluster.authority.schedule import DAY, SHOWN_SECONDS
from tests.cluster.memory_api import MemoryApi

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "/api/v1/namespaces/admc-system/secrets/admc-main-authority"  # noqa: S105
NAMES = ("admc-main.admc-system.svc",)


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def keeper(
    api: MemoryApi, clock: Clock | None = None, *, may_write: Callable[[], bool] = lambda: True
) -> AuthorityKeeper:
    return AuthorityKeeper(api, "main", "admc-system", NAMES, may_write, clock or Clock())  # type: ignore[arg-type]


def everywhere(bundle: str) -> bool:
    return True


def nowhere(bundle: str) -> bool:
    return False


async def test_the_active_replica_makes_it_and_the_others_follow() -> None:
    api = MemoryApi()
    standby = keeper(api, may_write=lambda: False)
    await standby.look(nowhere)
    assert api.objects == {}
    assert standby.bundle == ""
    active = keeper(api)
    await active.look(nowhere)
    await standby.look(nowhere)
    assert active.bundle == standby.bundle != ""
    assert active.material() == standby.material()
    assert api.objects[SECRET]["type"] == "admc.dev/authority"
    writes = api.requests["replace"], api.requests["create"]
    await active.look(everywhere)
    assert (api.requests["replace"], api.requests["create"]) == writes


async def test_a_rotation_and_a_new_process_in_each_phase() -> None:
    api, clock = MemoryApi(), Clock()

    async def new_process(is_shown: Callable[[str], bool]) -> AuthorityKeeper:
        process = keeper(api, clock)
        await process.look(is_shown)
        return process

    first = await new_process(nowhere)
    clock.now += 250 * DAY
    second = await new_process(nowhere)
    assert second.bundle.startswith(first.bundle)
    assert second.bundle.count("BEGIN CERTIFICATE") == 2
    signer = api.objects[SECRET]["data"]["signer.crt"]
    clock.now += 3 * DAY  # it is in some of the ConfigMaps
    assert (await new_process(nowhere)).bundle == second.bundle
    await new_process(everywhere)
    clock.now += SHOWN_SECONDS - 60
    await new_process(everywhere)
    assert api.objects[SECRET]["data"]["signer.crt"] == signer
    clock.now += 60
    third = await new_process(everywhere)
    assert api.objects[SECRET]["data"]["signer.crt"] != signer
    assert third.bundle == second.bundle
    assert third.material().certificate != second.material().certificate
    clock.now += 32 * DAY
    fourth = await new_process(everywhere)
    assert fourth.bundle.count("BEGIN CERTIFICATE") == 1
    assert second.bundle.endswith(fourth.bundle)


async def test_of_two_that_write_at_once_one_takes_over_what_the_other_stored() -> None:
    api = MemoryApi()
    one, other = keeper(api), keeper(api)

    async def between(verb: str) -> None:
        """`other` writes between the read and the write of `one`."""
        before = api.before
        interrupted = False

        def interrupt(now: str, path: str) -> None:
            nonlocal interrupted
            if now == verb and not interrupted:
                interrupted = True
                with contextlib.suppress(StopIteration):
                    other.look(nowhere).send(None)  # MemoryApi never waits

        api.before = interrupt
        with pytest.raises(ApiError) as caught:
            await one.look(nowhere)
        assert caught.value.status == 409
        api.before = before

    await between("create")
    await one.look(nowhere)
    assert one.bundle == other.bundle
    data = dict(api.objects[SECRET]["data"])
    await one.look(nowhere)
    assert api.objects[SECRET]["data"] == data


async def test_a_replica_that_may_not_write_any_more_writes_nothing() -> None:
    api, clock, active = MemoryApi(), Clock(), True
    replica = keeper(api, clock, may_write=lambda: active)
    await replica.look(nowhere)
    clock.now += 25 * DAY
    active = False
    await replica.look(nowhere)
    assert api.requests["replace"] == 0
    active = True
    await replica.look(nowhere)
    assert api.requests["replace"] == 1


async def test_a_secret_that_is_gone_is_written_again() -> None:
    api = MemoryApi()
    replica = keeper(api)
    await replica.look(nowhere)
    data = api.objects.pop(SECRET)["data"]
    await replica.look(nowhere)
    assert api.objects[SECRET]["data"] == data


@pytest.mark.parametrize(
    "data", [None, {}, {"signer.key": "%"}, {"tls.key": base64.b64encode(b"secret words").decode()}]
)
async def test_a_secret_that_cannot_be_used_is_left_as_it_is_and_the_last_good_one_in_use(
    data: dict[str, str] | None,
) -> None:
    api = MemoryApi()
    replica = keeper(api)
    await replica.look(nowhere)
    bundle = replica.bundle
    there = api.objects[SECRET]
    there["data"] = None if data is None else there["data"] | data if data else {}
    broken = dict(there)
    for each in (replica, keeper(api)):
        with pytest.raises(AuthorityError) as caught:
            await each.look(nowhere)
        assert str(caught.value).startswith("the Secret `admc-system/admc-main-authority` cannot be used: ")
        assert "delete it while no replica runs" in str(caught.value)
        assert "secret words" not in str(caught.value)
    assert replica.bundle == bundle
    assert api.objects[SECRET] == broken


async def test_a_failure_is_a_problem_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeping, "SOON_SECONDS", 0.01)
    monkeypatch.setattr(keeping, "LOOK_SECONDS", 0.01)
    api, is_away = MemoryApi(), True

    def refuse(verb: str, path: str) -> None:
        if is_away:
            raise ApiError(403, "Forbidden", 'cannot get resource "secrets"')

    api.before = refuse
    replica = keeper(api)
    running = asyncio.create_task(replica.run(nowhere))
    while not replica.problem:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    is_away = False
    await asyncio.wait_for(replica.until_usable(), 10)
    while replica.problem:
        await asyncio.sleep(0.01)
    running.cancel()
    reports = [record for record in caplog.records if record.getMessage() == "authority_not_kept"]
    assert [vars(record)["why"] for record in reports] == ['403 Forbidden: cannot get resource "secrets"']
