"""Requests against a server that answers as no API server should, or is busy."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from admc.kubernetes.cluster.api import requests
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.counts import Request
from admc.kubernetes.cluster.api.errors import ApiError
from tests.cluster.api.made_server import api_of, kubeconfig

if TYPE_CHECKING:
    from pathlib import Path

PODS = "/api/v1/pods"
BUSY = {"kind": "Status", "reason": "TooManyRequests", "message": "too many requests", "code": 429}


@pytest.mark.long
async def test_a_busy_server_is_asked_again_after_the_time_it_names(tmp_path: Path) -> None:
    asked: list[float] = []

    async def answer(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        if len(asked) < 3:
            return web.json_response(BUSY, status=429 if len(asked) == 1 else 503, headers={"Retry-After": "1"})
        return web.json_response({"kind": "Pod"})

    async with api_of(answer, tmp_path) as api:
        assert await api.get(PODS) == {"kind": "Pod"}
    assert min(b - a for a, b in itertools.pairwise(asked)) >= 1
    assert api.counts == {
        Request("get", "pods", "429"): 1,
        Request("get", "pods", "503"): 1,
        Request("get", "pods", "200"): 1,
    }


@pytest.mark.long
async def test_a_server_that_stays_busy_is_an_error_with_its_time(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(BUSY | {"details": {"retryAfterSeconds": 1}}, status=429)

    async with api_of(answer, tmp_path) as api:
        with pytest.raises(ApiError, match="too many requests") as error:
            await api.get(PODS)
    assert (error.value.status, error.value.reason, error.value.retry_after) == (429, "TooManyRequests", 1.0)
    assert api.counts == {Request("get", "pods", "429"): requests.ATTEMPTS}


async def test_503_without_a_time_is_an_error_at_once(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=503, text="no backend", headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})

    async with api_of(answer, tmp_path) as api:
        with pytest.raises(ApiError, match="no backend") as error:
            await api.get(PODS)
    assert (error.value.status, error.value.retry_after) == (503, None)


async def test_a_redirect_is_an_error_and_no_token_follows_it(tmp_path: Path) -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with api_of(answer, tmp_path, token="secret") as api:  # noqa: S106 - of the test
        with pytest.raises(ApiError, match="redirects to `/elsewhere`") as error:
            await api.get(PODS)
    assert error.value.status == 302
    assert asked == [PODS]
    assert api.counts == {Request("get", "pods", "302"): 1}


@pytest.mark.parametrize("text", ["<html>log in</html>", "[]", "", '{"kind": '])
async def test_an_answer_that_is_no_json_is_an_error(tmp_path: Path, text: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type="application/json")

    async with api_of(answer, tmp_path) as api:
        with pytest.raises(ApiError, match="no JSON") as error:
            await api.get(PODS)
    assert error.value.status == 200


async def test_the_message_of_the_server_is_bounded_and_printable(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": "\x1b[2J" + "x" * 10_000, "reason": "\u202e" * 1000}, status=403)

    async with api_of(answer, tmp_path) as api:
        with pytest.raises(ApiError) as error:
            await api.get(PODS)
    assert str(error.value).isprintable()
    assert "\\x1b[2J" in str(error.value)
    assert len(error.value.message) < 600


@pytest.mark.parametrize("params", [{}, {"limit": 500}])
async def test_an_endless_answer_is_cut(
    params: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests.bodies, "MAX_PAGE" if params else "MAX_OBJECT", 100_000)
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 10_000)
            sent += 10_000

    async with api_of(answer, tmp_path) as api:
        with pytest.raises(ApiError, match="more than 100000 bytes"):
            await api.get(PODS, **params)
    assert sent < 50_000_000  # what lies in sockets and buffers


async def test_a_small_answer_that_unpacks_to_much_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests.bodies, "MAX_OBJECT", 100_000)

    async def answer(_: web.Request) -> web.Response:
        response = web.Response(text='{"a": "' + " " * 5_000_000 + '"}', content_type="application/json")
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with api_of(answer, tmp_path) as api:
        with pytest.raises(ApiError, match="more than 100000 bytes"):
            await api.get(PODS)


@pytest.mark.parametrize("where", ["headers", "body"])
async def test_a_server_that_hangs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 0.3)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if where == "body":
            await response.prepare(request)
            await response.write(b"{")
        await asyncio.sleep(5)
        return response

    async with api_of(answer, tmp_path) as api:
        began = time.monotonic()
        with pytest.raises(ApiError, match="did not answer in time") as error:
            await api.get(PODS)
    assert time.monotonic() - began < 2
    assert error.value.status == 0
    assert api.counts.total() == 1


async def test_no_server_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with await connect(kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}")) as api:
        with pytest.raises(ApiError, match="no answer Connection") as error:
            await api.create(PODS, {})
    assert error.value.status == 0
    assert api.counts == {Request("create", "pods", "error"): 1}


@pytest.mark.parametrize(
    "path", ["/api/v1/pods/../secrets", "api/v1", "/api/v1/pods?watch=1", "/api//v1", "/a/b%2fc", ""]
)
async def test_a_path_names_what_it_seems_to_name(tmp_path: Path, path: str) -> None:
    async with await connect(kubeconfig(tmp_path / "config", "http://127.0.0.1:1")) as api:
        with pytest.raises(ValueError, match="is no path"):
            await api.get(path)


async def test_parameters_arrive_as_they_are(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(dict(request.query))

    given = {"labelSelector": "admc.dev/controller in (a, b),x!=y", "continue": "a+b/c=%20&ä", "limit": "5"}
    async with api_of(answer, tmp_path) as api:
        assert await api.get(PODS, **given) == given
    assert api.counts == {Request("list", "pods", "200"): 1}


async def test_a_watch_whose_server_falls_silent_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "GRACE_SECONDS", 0.2)

    async def answer(request: web.Request) -> web.StreamResponse:
        assert (request.query["watch"], request.query["timeoutSeconds"]) == ("true", "1")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED"}\n')
        await asyncio.sleep(30)
        return response

    async with api_of(answer, tmp_path) as api:
        began, events = time.monotonic(), api.events(PODS, {"timeoutSeconds": 1})
        assert await anext(events) == {"type": "ADDED"}
        with pytest.raises(ApiError, match="in time"):
            await anext(events)
    assert 1 <= time.monotonic() - began < 5
