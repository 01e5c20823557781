"""A server on loopback with the part of GitHub's API that comments need, and with the faults that GitHub may show."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

US = "github-actions[bot]"
REPOSITORY = "shop/mesh"
TOKEN = "t0ken"  # noqa: S105

Fault = Callable[[web.Request], web.StreamResponse | None]


@dataclass
class Api:
    comments: list[dict[str, object]] = field(default_factory=list)
    pulls: list[dict[str, object]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    """Method and path of each request."""
    faults: list[Fault | None] = field(default_factory=list)
    """What becomes of the next requests, one each: an answer instead of the usual one, or None."""
    after: list[str] = field(default_factory=list)
    """For the next writes: `stored` loses the answer after the write, `cut` ends the connection."""
    url: str = ""

    def add(self, author: str | None, body: str | None) -> int:
        number = 1000 + len(self.comments)
        user = None if author is None else {"login": author}
        self.comments.append({"id": number, "user": user, "body": body, "html_url": f"https://example.test/{number}"})
        return number

    def bodies(self, author: str = US) -> list[str]:
        return [str(row["body"]) for row in self.comments if row["user"] == {"login": author}]

    @property
    def writes(self) -> list[str]:
        return [line for line in self.log if not line.startswith("GET")]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.log.append(f"{request.method} {request.path_qs}")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"message": "Bad credentials"}, status=401)
        fault = self.faults.pop(0) if self.faults else None
        answer = None if fault is None else fault(request)
        if answer is not None:
            return answer
        parts = request.path.removeprefix(f"/repos/{REPOSITORY}/").split("/")
        if request.method == "GET":
            rows = self.pulls if parts == ["pulls"] else self.comments
            size, page = int(request.query["per_page"]), int(request.query["page"])
            return web.json_response(rows[(page - 1) * size : page * size])
        body = json.loads(await request.read())["body"]
        if request.method == "POST" and parts == ["issues", "7", "comments"]:
            number = self.add(US, body)
        elif request.method == "PATCH" and parts[:2] == ["issues", "comments"]:
            number = int(parts[2])
            next(row for row in self.comments if row["id"] == number)["body"] = body
        else:
            return web.json_response({"message": "Not Found"}, status=404)
        lost = self.after.pop(0) if self.after else ""
        if lost == "cut":
            assert request.transport is not None
            request.transport.abort()
        if lost:
            return web.json_response({"message": "Server Error"}, status=500)
        return web.json_response(next(row for row in self.comments if row["id"] == number), status=201)


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[Api]:
    app = web.Application(client_max_size=1 << 20)
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()


def answer(status: int, headers: dict[str, str] | None = None, message: str = "no") -> Fault:
    return lambda _: web.json_response({"message": message}, status=status, headers=headers or {})
