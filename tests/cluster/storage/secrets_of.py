"""A server's kept state in Secrets, as tests write and read it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, TypeVar

from envoy.config.cluster.v3 import cluster_pb2

from admc.kubernetes.cluster.storage.record import INDEX, Names, content_of
from admc.kubernetes.cluster.storage.secrets import Secrets
from admc.kubernetes.cluster.storage.storage import SecretStorage
from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import Holding, Label, begun
from admc.serve.storage.position import Position, Recipe
from xds_server.resources.snapshot import Resource, Snapshot

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.requests import Api

T = TypeVar("T")

RECIPE = Recipe("policies.adm", "redirect", {"policies.adm": b"app shop\n"}, b"{}", None)
POSITION = Position(begun("plan", bytes(32)), {"plan": RECIPE}, {})
"""At rest."""


def moving(*services: str, step: StepName = StepName.PREPARE, frozen: tuple[str, ...] = ()) -> Position:
    """In the middle of a move that these services are about."""
    rest, now = Label("plan"), Label("plan", "next", step, 1)
    held = (Holding(rest, frozenset(services), proven=True), Holding(now, frozenset(services)))
    state = type(POSITION.rollout)(now, held, moves=1, secret=bytes(32))
    recipe = RECIPE._replace(plan=b'{"next": true}')
    return Position(state, {"plan": RECIPE, "next": recipe}, {name: snapshot(f"old-{name}") for name in frozen})


def snapshot(*names: str) -> Snapshot:
    return Snapshot.of(Resource.of(cluster_pb2.Cluster(name=name)) for name in names)


class Replica:
    """One server's storage; `may_write` is its belief to hold the Lease."""

    def __init__(self, api: Api, writer: str, names: Names) -> None:
        self.names = names
        self.may_write = True
        self.superseded: list[str] = []
        self.clock = 0.0
        self.secrets = Secrets(api, names, lambda: self.may_write)
        self.storage = SecretStorage(self.secrets, names, writer, self.superseded.append, clock=lambda: self.clock)

    async def load(self) -> Any:
        return await asyncio.to_thread(self.storage.load)

    async def peek(self, version: str = "none") -> Any:
        return await asyncio.to_thread(self.storage.peek, version)

    async def store(self, position: Position | None, groups: dict[str, Snapshot] | None = None, *refusing: str) -> None:
        await asyncio.to_thread(self.storage.save_as_owner, position, groups or {}, refusing)

    async def save(self, position: Position | None, groups: dict[str, Snapshot] | None = None, *refusing: str) -> bool:
        return await asyncio.to_thread(self.storage.save, position, groups or {}, refusing)

    async def renew(self) -> bool:
        return await asyncio.to_thread(self.storage.renew)


def index_of(secret: dict[str, Any]) -> dict[str, Any]:
    content = content_of(secret, INDEX)
    assert content is not None
    found: dict[str, Any] = json.loads(content)
    return found


def versions(groups: Any) -> dict[str, str]:
    return {name: item.version for name, item in groups.items()}


def replica(api: Api, writer: str = "one", names: Names | None = None) -> Replica:
    return Replica(api, writer, names or Names("mesh", "admc"))


Change = "Callable[[dict[str, Any]], object]"
