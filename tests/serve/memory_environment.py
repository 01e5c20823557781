"""A server whose environment is in memory, in a process of its own: a program by content, and no file at all.

Each line of standard input is a JSON object that changes the environment:

    {"files": {"policies.adm": "..."}, "main": "policies.adm", "facts": "{...}"}   the program; null: none
    {"gone": ["web-1"]}                                                            nodes whose pod is gone
    {"leads": false}                                                               it may not publish
    {"exit": 7}                                                                    the server is to stop
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from admc.serve.app import ListenOptions, serve
from admc.serve.auth import identity
from admc.serve.auth.identity import Proof, Settings
from admc.serve.compiling.source import Source
from admc.serve.files.state_dir import open_state_dir
from admc.serve.observe.events import LogFormat
from admc.testbed.envoys import LAUNCHER
from emitters.envoy import Mode
from tests.serve.server_process import Served
from xds_server.transport.client import Admission, Caller, DeniedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from admc.serve.environment import Environment, Identifier, Serving
    from admc.serve.file_watch import Signature
    from admc.serve.rollout.model import Placed, Step
    from admc.serve.storage.position import Recipe
    from dsl.program import Program
    from emitters.addresses import Addresses

PODS = {"web": {"pods": ["10.1.0.2"]}, "cart": {"addresses": ["10.2.0.1"], "pods": ["10.1.0.3"]}}

ROOT: Final = Path(__file__).parents[2]


class Content:
    """`Programs` and `AddressSource` of what a test gives."""

    def __init__(self) -> None:
        self.source: Source | None = None
        self._changed = asyncio.Event()

    def set(self, source: Source | None) -> None:
        self.source = source
        self._changed.set()

    async def current(self) -> Source | None:
        self._changed.clear()
        return self.source

    def compiled(self, files: Signature) -> None:
        assert not files, "a program by content has no file on disk"

    async def changed(self) -> None:
        await self._changed.wait()


class Pods:
    """The addresses of `PODS`, which stay."""

    async def current(self) -> bytes:
        return json.dumps({"services": PODS}).encode()

    async def changed(self) -> None:
        await asyncio.get_running_loop().create_future()


class Nodes:
    """`IdentitySource`: a client is of the service that it claims, as long as its pod is there."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self._inner: Identifier | None = None
        self._services: asyncio.Queue[str] = asyncio.Queue()

    def remove(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.gone.add(node)
            self._services.put_nowait(node.partition("-")[0])

    async def of(self, program: Program, *, ignore_unknown: bool = False) -> Identifier:
        self._inner = identity.load(Settings(Proof.NONE), program, ignore_unknown=ignore_unknown)
        return self

    async def changed(self) -> Collection[str]:
        return (await self._services.get(),)

    def identify(self, caller: Caller) -> Admission:
        if caller.node.id in self.gone:
            raise DeniedError("unknown", f"the pod `{caller.node.id}` is gone")
        assert self._inner is not None
        return self._inner.identify(caller)

    def may_administer(self, caller: Caller) -> bool:
        return False


class Loaded:
    """`Redirection` that is always loaded."""

    text = ""

    def load_record(self) -> None: ...
    def resume(self) -> None: ...
    def begin(self, old: Placed | None) -> None: ...
    def ask(self, placed: Placed, addresses: Addresses) -> None: ...
    def confirm(self) -> None: ...

    def keep(self) -> bool:
        return False

    def missing(self, step: Step) -> tuple[str, ...]:
        return ()

    def proxies(self, service: str) -> frozenset[str] | None:
        return None


class MemoryEnvironment:
    source = "what a test gives"
    closing = None
    replica = None

    def __init__(self, folder: Path | None = None) -> None:
        self.programs = Content()
        self.addresses = Pods()
        self.identities = Nodes()
        self.storage = None if folder is None else open_state_dir(folder)
        self.redirection = Loaded()
        self.leads = True
        self.serving: Serving | None = None
        self._exit = asyncio.Event()
        self._code = 0

    def announced(self, plans: Sequence[Placed], recipe: Recipe | None) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    def services(self, serving: Serving) -> Iterable[Callable[[Any], None]]:
        self.serving = serving
        return ()

    def metrics(self) -> Iterable[Any]:
        return ()

    @property
    def is_prepared(self) -> bool:
        return False

    def may_publish(self) -> bool:
        return self.leads

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        threading.Thread(target=_read, args=(loop, self.change), daemon=True).start()
        await self._exit.wait()
        return self._code

    def change(self, order: Mapping[str, Any]) -> None:
        if "files" in order:
            self.programs.set(source_of(order))
        self.identities.remove(order.get("gone", ()))
        self.leads = order.get("leads", self.leads)
        if "exit" in order:
            self._code = order["exit"]
            self._exit.set()


def source_of(order: Mapping[str, Any]) -> Source | None:
    if order["files"] is None:
        return None
    files = {name: text.encode() for name, text in order["files"].items()}
    facts = order.get("facts")
    path = Path(order.get("main", "policies.adm"))
    return Source(path, Mode.REDIRECT, files=files, facts=None if facts is None else facts.encode())


def _read(loop: asyncio.AbstractEventLoop, change: Callable[[Mapping[str, Any]], None]) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(change, json.loads(line))


class InMemory(Served):
    """The process, as a test sees it."""

    def give(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()


@contextlib.contextmanager
def in_memory(folder: Path, *arguments: str) -> Iterator[InMemory]:
    """Run such a server in a folder until the block ends. `arguments`: its state folder, if it has one."""
    log = folder / "serve.log"
    command = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
    command += [sys.executable, "-m", "tests.serve.memory_environment", *arguments]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stderr=errors,
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    it = InMemory(process, log)
    try:
        said = it.until_event("listening")
        it.xds, it.ops = said["xds"], said["ops"]
        yield it
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def main() -> int:
    environment: Environment = MemoryEnvironment(*map(Path, sys.argv[1:]))
    here = ("127.0.0.1", 0)
    return serve(environment, ListenOptions(here, here, None, LogFormat.JSON))


if __name__ == "__main__":
    sys.exit(main())
