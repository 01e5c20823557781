"""The proxies of all pods with an ADM, as one program in Go (`proxies/`), whose cost is not the server's."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.inject.model import AUDIENCE_PREFIX
from admc.kubernetes.inject.names import ADM_CONTAINER
from emitters.envoy.resources import SIBLINGS
from tests.bench.cluster.mesh import ACCOUNT
from tests.bench.xds.compare import Program
from tests.golang import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.serve.installation import Installation

SOURCES: Final = Path(__file__).with_name("proxies")
NANOSECONDS: Final = 1e9


class Delivered(NamedTuple):
    """A new address that all proxies have acknowledged which need it."""

    service: str
    seconds: float
    """From the moment that the API server showed it to the last acknowledgement."""
    needed: int
    """By so many proxies."""


class Taken(NamedTuple):
    delivered: list[Delivered]
    open: int
    """So many addresses are not acknowledged by all yet."""
    unused: int
    """So many new addresses no proxy needs."""


class Proxies:
    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def cpu(self) -> float:
        return self._program.cpu

    def status(self) -> dict[str, Any]:
        """`pods`, `proxies`, `connected`, `failure`, `bytes`, `answers`."""
        return self._ask("status")

    def learn(self) -> dict[str, Any]:
        """From now on a proxy needs the addresses of the services of which it has some now."""
        return self._ask("learn")

    def take(self) -> Taken:
        """What is complete since the last time."""
        found = self._ask("take")
        delivered = [
            Delivered(each["service"], max(0, each["last"] - each["at"]) / NANOSECONDS, each["needed"])
            for each in found["done"]
        ]
        return Taken(delivered, found["open"], found["unused"])

    def _ask(self, command: str) -> dict[str, Any]:
        self._program.tell(command)
        found: dict[str, Any] = json.loads(self._program.hear())
        return found


@contextmanager
def proxies(installation: Installation, folder: Path) -> Iterator[Proxies]:
    """Of all pods that are there, and of those that come. Raises `MissingError` and `BuildError`."""
    program = build(SOURCES, "proxies")
    authority = folder / "proxies-ca.crt"
    authority.write_bytes(installation.authority.certificate)
    settings = {
        "api": installation.api.url,
        "api_token": installation.api.admin_token,
        "api_ca": str(installation.api.ca),
        "namespace": installation.namespace,
        "account": ACCOUNT,
        "audience": f"{AUDIENCE_PREFIX}{installation.name}",
        "system": installation.system,
        "slice": f"admc-{installation.name}",
        "host": "127.0.0.1",
        "authority": str(authority),
        "server_name": "localhost",
        "container": ADM_CONTAINER,
        "siblings": SIBLINGS,
    }
    path = folder / "proxies.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    running = Program([str(program), str(path)])
    try:
        yield Proxies(running)
    finally:
        running.end()
