"""A server by hand, for faults that a real API server does not show: each answer is a function of the request."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import yaml
from aiohttp import web

from admc.kubernetes.cluster.api.connection import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api

    Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def kubeconfig(path: Path, server: str, **user: object) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": user}],
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[str]:
    """The address of a server that answers all requests so."""
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        (address,) = runner.addresses
        yield f"http://127.0.0.1:{address[1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def api_of(answer: Answer, folder: Path, **user: object) -> AsyncIterator[Api]:
    async with served(answer) as address, await connect(kubeconfig(folder / "config", address, **user)) as api:
        yield api
