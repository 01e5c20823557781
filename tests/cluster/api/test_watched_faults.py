"""List and watch against a server that misbehaves in ways that a real API server does not show."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from admc.kubernetes.cluster.api import watched as module
from admc.kubernetes.cluster.api.body import TooLargeError
from admc.kubernetes.cluster.api.watched import Watched
from tests.cluster.api.made_server import api_of
from tests.cluster.api.recorder import MAPS, Recorder, recorded, text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

PATH = MAPS.format("a")
Document = dict[str, Any]


def _map(name: str, said: object, version: int = 1) -> Document:
    metadata = {"name": name, "namespace": "a", "resourceVersion": str(version)}
    return {"metadata": metadata, "data": {"text": said}}


def _list(*items: Document, version: int = 1, more: str = "") -> Document:
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def _event(kind: str, item: Document) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


class _Server:
    """Lists and watches are answered from two scripts; after their end, watches are silent."""

    def __init__(self, lists: list[Document], *watches: list[bytes | str]) -> None:
        self._lists, self._watches = list(lists), list(watches)
        self.asked: list[dict[str, str]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        if "watch" not in request.query:
            found = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
            return web.json_response(found, status=found.get("code", 200))
        response = web.StreamResponse()
        await response.prepare(request)
        for part in self._watches.pop(0) if self._watches else [b"", "hang"]:
            if part == "cut":
                assert request.transport is not None
                request.transport.abort()
            elif part == "hang":
                await asyncio.sleep(30)
            else:
                await response.write(part)  # type: ignore[arg-type]
        return response

    def versions(self) -> list[str]:
        """Where each watch began."""
        return [query["resourceVersion"] for query in self.asked if "watch" in query]


async def test_a_watch_goes_on_from_the_last_version(tmp_path: Path) -> None:
    server = _Server(
        [_list(_map("a", "1"), version=7)],
        [
            _event("MODIFIED", _map("a", "2", 8)),
            _event("ADDED", _map("b", "1", 9)),
            _event("ADDED", _map("c", "1", 10))[:-9],
            "cut",
        ],
        [_event("ADDED", _map("c", "1", 10)), _event("BOOKMARK", {"metadata": {"resourceVersion": "20"}}), "cut"],
        [_event("DELETED", _map("a", "2", 21)), "hang"],
    )
    async with api_of(server.answer, tmp_path) as api, recorded(api, PATH) as recorder:
        await recorder.until(lambda: recorder.items == {"b": "1", "c": "1"})
        assert recorder.take() == [
            ("a", None, "1"),
            ("a", "1", "2"),
            ("b", None, "1"),
            ("c", None, "1"),
            ("a", "2", None),
        ]
    assert server.versions() == ["7", "9", "20"]
    assert sum("limit" in query for query in server.asked) == 1
    assert all(query.get("allowWatchBookmarks") == "true" for query in server.asked if "watch" in query)


@pytest.mark.parametrize(
    "gone",
    [
        _event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
        _event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd"}),
        b'{"type": "ERROR"}\n',
        b'{"type": "NEWS", "object": {}}\n',
        b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "9"}}}\n',
        b'{"type": "ADDED", "object": {"metadata": {"name": "a", "namespace": "a"}}}\n',
        b'{"type": "ADDED"}\n',
    ],
)
async def test_after_an_error_event_only_the_difference_is_reported(tmp_path: Path, gone: bytes) -> None:
    server = _Server(
        [
            _list(_map("kept", "1"), _map("changed", "1"), _map("lost", "1"), version=7),
            _list(_map("kept", "1"), _map("changed", "2"), _map("new", "1"), version=50),
        ],
        [gone, "hang"],
    )
    async with api_of(server.answer, tmp_path) as api, recorded(api, PATH) as recorder:
        recorder.take()
        await recorder.until(lambda: "new" in recorder.items)
        assert recorder.take() == [("changed", "1", "2"), ("lost", "1", None), ("new", None, "1")]
        await recorder.until(lambda: len(server.versions()) == 2)
    assert server.versions() == ["7", "50"]


async def test_a_page_that_expired_begins_the_list_anew(tmp_path: Path) -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "the continue parameter is too old"}
    server = _Server(
        [
            _list(_map("old", "1"), version=7, more="page 2"),
            gone,
            _list(_map("a", "1"), version=9, more="page 2"),
            _list(_map("b", "1"), version=9),
        ]
    )
    async with api_of(server.answer, tmp_path) as api, recorded(api, PATH) as recorder:
        assert recorder.items == {"a": "1", "b": "1"}
        assert recorder.take() == [("a", None, "1"), ("b", None, "1")]
        await recorder.until(lambda: server.versions() == ["9"])
    assert [query.get("continue") for query in server.asked[:4]] == [None, "page 2", None, "page 2"]


async def test_a_page_that_is_too_large_is_asked_for_in_parts() -> None:
    class Small:
        """No answer has more than 30 objects."""

        def __init__(self) -> None:
            self.limits: list[int] = []

        async def get(self, _: str, **params: Any) -> Document:
            limit, begin = params["limit"], int(params.get("continue", 0))
            self.limits.append(limit)
            if limit > 30:
                raise TooLargeError("the answer", 1)
            items = [_map(f"{number}", "1") for number in range(begin, min(100, begin + limit))]
            return _list(*items, version=3, more=str(begin + limit) if begin + limit < 100 else "")

        async def events(self, *_: object, **__: object) -> AsyncGenerator[Document, None]:
            await asyncio.sleep(30)
            yield {}

    small = Small()
    async with recorded(small, PATH, page=100) as recorder:
        assert len(recorder.items) == 100
    assert small.limits == [100, 25, 25, 25, 25]


async def test_a_list_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIST_SECONDS", 0.5)
    async with api_of(_Server([_list(_map("a", "1"), more="more")]).answer, tmp_path) as api:
        recorder = Recorder(api, PATH)
        task = asyncio.create_task(recorder.watched.run())
        await recorder.until(lambda: bool(recorder.watched.problem))
        task.cancel()
        assert "not complete" in recorder.watched.problem
        assert not recorder.items
        assert not recorder.watched.synced.is_set()


async def test_an_object_that_is_rejected_is_left_out_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {"metadata": {"name": "bad", "namespace": "a", "resourceVersion": "8"}, "data": "\x1b[2J"}
    gone = _event("ERROR", {"code": 410})
    server = _Server(
        [_list(_map("good", "1"), _map("later", "1"), bad, version=7)],
        [_event("MODIFIED", bad), _event("MODIFIED", {**bad, "metadata": {**bad["metadata"], "name": "later"}}), gone],
        [gone],
        [_event("MODIFIED", _map("bad", "1", 11)), "hang"],
    )
    caplog.set_level(logging.WARNING, "admc.cluster")
    async with api_of(server.answer, tmp_path) as api, recorded(api, PATH) as recorder:
        await recorder.until(lambda: recorder.items.get("bad") == "1")
        assert recorder.items == {"good": "1", "later": "1", "bad": "1"}
        assert not recorder.watched.rejected
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(": ")[0] for line in said] == [
        "configmaps `a/bad` is left out",
        "configmaps `a/later` is left out",
    ]
    assert recorder.reported == [
        ("good", None, "1"),
        ("later", None, "1"),
        ("later", "1", None),
        ("later", None, "1"),
        ("bad", None, "1"),
    ]


async def test_a_rejected_object_that_is_deleted_is_forgotten(tmp_path: Path) -> None:
    bad = {"metadata": {"name": "bad", "namespace": "a", "resourceVersion": "8"}}
    server = _Server([_list(bad)], [_event("DELETED", bad), _event("ADDED", _map("a", "1", 9)), "hang"])
    async with api_of(server.answer, tmp_path) as api, recorded(api, PATH) as recorder:
        await recorder.until(lambda: "a" in recorder.items)
        assert not recorder.watched.rejected


async def test_what_decode_leaves_out_comes_and_goes(tmp_path: Path) -> None:
    server = _Server(
        [_list(_map("a", "hidden"), _map("b", "1"))],
        [_event("MODIFIED", _map("b", "hidden", 2)), _event("MODIFIED", _map("a", "1", 3)), "hang"],
    )
    async with api_of(server.answer, tmp_path) as api, recorded(api, PATH) as recorder:
        await recorder.until(lambda: recorder.items == {"a": "1"})
        assert recorder.take() == [("b", None, "1"), ("b", "1", None), ("a", None, "1")]


@pytest.mark.long
async def test_a_server_that_ends_watches_at_once_is_not_asked_all_the_time(tmp_path: Path) -> None:
    server = _Server([_list(_map("a", "1"))], *[[b""] for _ in range(1000)])
    async with api_of(server.answer, tmp_path) as api, recorded(api, PATH) as recorder:
        await asyncio.sleep(2)
        assert recorder.items == {"a": "1"}
    assert 2 < len(server.versions()) < 8


async def test_a_forbidden_list_is_a_problem_that_names_itself(tmp_path: Path) -> None:
    no = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "configmaps is forbidden"}
    server = _Server([no, _list(_map("a", "1"))])
    async with api_of(server.answer, tmp_path) as api:
        recorder = Recorder(api, PATH)
        task = asyncio.create_task(recorder.watched.run())
        await recorder.until(lambda: bool(recorder.watched.problem))
        assert recorder.watched.problem == "403 Forbidden: configmaps is forbidden"
        assert not recorder.watched.synced.is_set()
        await recorder.until(recorder.watched.synced.is_set)
        assert recorder.watched.problem == ""
        task.cancel()


async def test_of_a_kind_that_is_not_defined_there_are_no_objects(tmp_path: Path) -> None:
    no = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "the server could not find it"}
    server = _Server([no, _list(_map("a", "1"))])
    async with api_of(server.answer, tmp_path) as api:
        recorder = Recorder(api, PATH, definition="maps.yaml")
        task = asyncio.create_task(recorder.watched.run())
        await recorder.until(recorder.watched.synced.is_set)
        assert recorder.watched.problem == "404 NotFound: the server could not find it; maps.yaml defines them"
        await recorder.until(lambda: recorder.items == {"a": "1"})
        assert recorder.watched.problem == ""
        task.cancel()


async def test_the_time_that_a_busy_server_names_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(module.asyncio, "sleep", slept)
    busy = {
        "kind": "Status",
        "code": 429,
        "reason": "TooManyRequests",
        "message": "",
        "details": {"retryAfterSeconds": 7},
    }
    async with api_of(_Server([*[busy] * 3, _list()]).answer, tmp_path) as api:
        found: Watched[str] = Watched(api, PATH, text)
        task = asyncio.create_task(found.run())
        await found.synced.wait()
        task.cancel()
    assert waits[:2] == [7.0, 7.0]  # inside the request
    assert waits[2] >= 7.0
