"""The keys of the cluster's tokens: when they are asked for, and what they are good for."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from admc.kubernetes.cluster.identity.keys import FETCH_SECONDS, ClusterKeys
from tests.cluster.identity.cluster import Cluster, cluster, key_set, token
from tests.serve.test_identity import RSA, jwk
from xds_server.transport.client import DeniedError, NotYetError

NEW = rsa.generate_private_key(public_exponent=65537, key_size=2048)
BOTH = key_set(jwk(RSA.public_key(), kid="one"), jwk(NEW.public_key(), kid="two"))


def refused(keys: ClusterKeys, bearer: str) -> DeniedError:
    with pytest.raises(DeniedError) as caught:
        keys.verify(bearer)
    return caught.value


async def test_before_the_first_answer_clients_come_again() -> None:
    made = Cluster()
    assert isinstance(refused(made.keys, token()), NotYetError)
    assert made.requests == 0
    await made.with_keys()
    assert made.keys.verify(token()).subject == "system:serviceaccount:shop:shared"


async def test_a_connection_costs_no_request() -> None:
    made = await cluster()
    following = asyncio.create_task(made.keys.follow())
    for number in range(20):
        made.keys.verify(token(iat=number))
        refused(made.keys, token(aud=["other"], iat=number))
    await asyncio.sleep(0.05)
    following.cancel()
    assert made.requests == 1


async def test_an_unknown_key_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.identity.keys.FETCH_SECONDS", 0.05)
    made = Cluster()
    following = asyncio.create_task(made.keys.follow())
    await asyncio.wait_for(made.keys.replaced.wait(), 5)
    made.keys.replaced.clear()
    made.published = BOTH
    made.now += FETCH_SECONDS
    rotated = token(key=NEW, kid="two")
    assert isinstance(refused(made.keys, rotated), NotYetError)
    await asyncio.wait_for(made.keys.replaced.wait(), 5)
    assert made.keys.verify(rotated).pod is not None
    assert made.keys.verify(token()).pod is not None
    assert made.requests == 2
    following.cancel()


async def test_clients_with_made_up_keys_cause_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.identity.keys.FETCH_SECONDS", 0.2)
    made = Cluster()
    following = asyncio.create_task(made.keys.follow())
    began = time.monotonic()
    for number in range(50):
        made.now = 100.0 + time.monotonic() - began
        refused(made.keys, token(key=NEW, kid=f"made-up-{number}"))
        await asyncio.sleep(0.01)
    seconds = time.monotonic() - began
    following.cancel()
    assert made.requests <= 2 + seconds / 0.2


async def test_an_unknown_key_is_refused_when_the_keys_are_new() -> None:
    made = await cluster()
    error = refused(made.keys, token(key=NEW, kid="made-up"))
    assert not isinstance(error, NotYetError)
    assert "not among the token keys" in str(error)


async def test_a_forged_signature_asks_for_nothing() -> None:
    made = await cluster()
    made.now += 10 * FETCH_SECONDS
    assert not isinstance(refused(made.keys, token(key=NEW)), NotYetError)


@pytest.mark.parametrize(
    "answer", [b"", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "AA"}]}', b"x" * 2_000_000]
)
async def test_keys_stay_where_the_answer_is_useless(answer: bytes) -> None:
    made = await cluster()
    made.published = answer
    await made.keys.fetch_once()
    assert made.keys.verify(token()).pod is not None


async def test_keys_stay_while_the_api_server_is_away() -> None:
    made = await cluster()

    async def away() -> bytes:
        raise ConnectionRefusedError("connect: connection refused")

    made.keys = ClusterKeys("admc.dev/test", away)
    await made.keys.fetch_once()
    assert isinstance(refused(made.keys, token()), NotYetError)


async def test_a_refusal_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[bytes | Exception] = [OSError("403"), OSError("403"), b"[]", b"[]", OSError("403")]

    async def fetch() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    keys = ClusterKeys("admc.dev/main", fetch)
    while answers:
        await keys.fetch_once()
    assert [each.getMessage() for each in caplog.records] == ["keys_not_fetched", "keys_refused", "keys_not_fetched"]


async def test_attempts_are_few_while_the_api_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.identity.keys.FETCH_SECONDS", 0.1)
    attempts = 0

    async def away() -> bytes:
        nonlocal attempts
        attempts += 1
        raise ConnectionRefusedError("connect: connection refused")

    began = time.monotonic()
    following = asyncio.create_task(ClusterKeys("admc.dev/test", away).follow())
    await asyncio.sleep(0.55)
    following.cancel()
    assert 2 <= attempts <= 1 + (time.monotonic() - began) / 0.1


async def test_a_key_that_is_gone_ends_what_it_signed() -> None:
    made = Cluster()
    made.published = BOTH
    await made.with_keys()
    rotated = token(key=NEW, kid="two")
    made.keys.verify(rotated)
    made.published = key_set()
    await made.keys.fetch_once()
    assert made.keys.replaced.is_set()
    refused(made.keys, rotated)
    assert await asyncio.wait_for(made.source.changed(), 5) is None


async def test_a_remembered_token_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await cluster()
    bearer = token()
    made.keys.verify(bearer)
    later = SimpleNamespace(time=lambda: time.time() + 3620)
    monkeypatch.setattr("admc.kubernetes.cluster.identity.keys.time", later)
    assert refused(made.keys, bearer).reason == "expired"
