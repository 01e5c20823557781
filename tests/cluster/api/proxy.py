"""A TCP proxy in front of an API server, that can fall silent or refuse connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cluster.api_server import ApiServer


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.refuses = False
        self.port = 0

    def silence(self) -> None:
        """Connections stay, and nothing passes any more; new ones work."""
        self._silent |= self._open

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            from_server, to_server = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, to_server}
        try:
            await asyncio.gather(self._copy(reader, to_server), self._copy(from_server, writer))
        finally:
            self._open -= {writer, to_server}
            self._silent -= {writer, to_server}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(2**16):
                if writer not in self._silent:
                    writer.write(content)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def close(self) -> None:
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxied(server: ApiServer) -> AsyncIterator[Proxy]:
    url = urlsplit(server.url)
    proxy = Proxy(url.hostname or "", url.port or 0)
    listening = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()


def kubeconfig_of(server: ApiServer, proxy: Proxy, folder: Path) -> Path:
    document = yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8"))
    for cluster in document["clusters"]:
        cluster["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    path = folder / "through-proxy"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path
