"""Chromium without a window, over its DevTools protocol: opens a page, runs scripts in it, takes pictures.

Tests that need it are long, and skip without it: `make system` does not install it, since it takes 300 MB.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.system import find

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
SKIPPED: Final = "no Chromium (`apt-get install chromium` has it on Debian; about 300 MB)"
SECONDS: Final = 30.0
_FLAGS: Final = (
    *("--headless=new", "--remote-debugging-port=0", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check"),
    *("--no-proxy-server", "--disable-dev-shm-usage"),
)


def chromium() -> str | None:
    return next((found for name in PROGRAMS if (found := find(name))), None)


class Tab:
    """One page. `events` has what the browser reported of it, the newest last."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._last = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []

    async def read(self) -> None:
        async for message in self._socket:
            document = message.json()
            if "id" in document:
                self._answers.pop(document["id"]).set_result(document)
            else:
                self.events.append(document)

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        answer = self._answers[self._last] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._last, "method": method, "params": parameters})
        document = await asyncio.wait_for(answer, SECONDS)
        assert "error" not in document, document
        found: dict[str, Any] = document["result"]
        return found

    async def open(self, path: Path) -> None:
        """Open a page of this package, and wait until it is drawn."""
        await self.send("Page.navigate", url=path.resolve().as_uri())
        for _ in range(int(SECONDS / 0.02)):
            if await self.run("document.documentElement?.dataset.ready === 'yes'"):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"the page was never drawn: {self.problems()}")

    async def run(self, script: str) -> Any:
        """The value of an expression."""
        answer = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def looks(self, width: int, height: int, scheme: str = "light", media: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", media=media, features=features)
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def picture(self) -> bytes:
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])

    def problems(self) -> list[str]:
        """Errors, warnings, and what the page's policy refused."""
        found = []
        for event in self.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                found.append(str(parameters["args"]))
            elif event["method"] == "Page.javascriptDialogOpening":
                found.append(f"a dialog: {parameters['message']}")
        return found

    def requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]


@asynccontextmanager
async def tab(folder: Path) -> AsyncIterator[Tab]:
    """A browser with a profile of its own in `folder`, and its one tab."""
    program = chromium()
    assert program is not None
    flags = [*_FLAGS, f"--user-data-dir={folder}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen([program, *flags, "about:blank"], stdout=log, stderr=log)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(await _address(folder, session), max_msg_size=0) as socket,
        ):
            found = Tab(socket)
            reader = asyncio.create_task(found.read())
            for domain in ("Page", "Runtime", "Log", "Network"):
                await found.send(f"{domain}.enable")
            yield found
            reader.cancel()
    finally:
        process.terminate()
        process.wait(SECONDS)


async def _address(folder: Path, session: aiohttp.ClientSession) -> str:
    port = folder / "DevToolsActivePort"
    for _ in range(int(SECONDS / 0.05)):
        if port.exists() and (lines := port.read_text(encoding="utf-8").splitlines()):
            async with session.get(f"http://127.0.0.1:{lines[0]}/json/list") as answer:
                tabs = [each for each in await answer.json() if each["type"] == "page"]
                if tabs:
                    address: str = tabs[0]["webSocketDebuggerUrl"]
                    return address
        await asyncio.sleep(0.05)
    raise AssertionError((folder / "chromium.log").read_text(encoding="utf-8", errors="replace"))
