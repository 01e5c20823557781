"""A program as `--emit` wrote it, ready to run: Envoys that ask a server at its usual port, and requests of a call."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from admc.__main__ import main
from admc.compile.pipeline import compile_program
from admc.testbed.client import Request, send
from admc.testbed.echo import EchoServices
from admc.testbed.envoys import Envoys, envoy_binary
from admc.testbed.loopback import LoopbackLayout
from tests.testbed.repeated import Repeated

if TYPE_CHECKING:
    from pathlib import Path

    from dsl.program import Call
    from tests.serve.server_process import Served

XDS = "127.0.0.1:18000"
"""The server of the emitted bootstraps; a test that serves there uses the fixture `alone`."""


class Traffic(Repeated):
    """Requests of one call, one after the other, and what the service saw of each."""

    def __init__(self, site: LoopbackLayout, call: Call) -> None:
        super().__init__()
        self._target = site.target(call)
        self.seen: list[tuple[int | None, str]] = []
        """Status, and the header `x-tier`."""

    def ask(self) -> tuple[int | None, str]:
        reply = send("http", self._target, Request(), 10.0)
        tier = next((value for name, value in reply.seen.headers if name == "x-tier"), "") if reply.seen else ""
        return reply.status, tier

    def once(self) -> None:
        self.seen.append(self.ask())

    def becomes(self, server: Served, tier: str) -> None:
        server.until(lambda: self.seen and self.seen[-1] == (200, tier))

    def stays(self, server: Served, tier: str, count: int = 30) -> None:
        """The next requests are all enforced as before."""
        begin = len(self.seen)
        server.until(lambda: len(self.seen) > begin + count)
        assert set(self.seen[begin + 1 :]) == {(200, tier)}


class Emitted:
    """Its echo services run from the beginning; a test starts its Envoys."""

    def __init__(self, folder: Path, text: str, stack: ExitStack) -> None:
        self.folder = folder
        self.program = folder / "policies.adm"
        self.program.write_text(text)
        assert main(["compile", str(self.program), "--emit", str(folder / "out")]) == 0
        compiled = compile_program(self.program)
        self.site = LoopbackLayout(compiled.program, compiled.placement, folder)
        hosts = [adm.service for adm in compiled.placement.adms]
        self.bootstraps = {host: folder / "out" / host / "bootstrap-xds.yaml" for host in hosts}
        stack.enter_context(EchoServices(self.site.endpoints))
        envoy = envoy_binary()
        assert envoy is not None
        self.envoys = stack.enter_context(Envoys(folder / "logs", envoy))

    def traffic(self, destination: str) -> Traffic:
        return Traffic(self.site, next(call for call in self.site.program.calls if call.destination == destination))
