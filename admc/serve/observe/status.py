"""The status of a server: the versions that each proxy was sent and has acknowledged, and its NACKs.

    clients, snapshots, the plan's ADMs --collect--> Status --to_json--> /status.json --from_json--> admc status

`status.schema.json` is the published form; docs/operations.md says what each field means.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal

from admc import __version__
from admc.base.terminal import visible
from admc.serve.rollout.marker import concealed_text
from dsl.documents import DocumentError, Form, OneOf, Published, VersionError, fields_of, plain, read, record
from dsl.program import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from solver.placement import Placement
    from xds_server.transport.client import ClientStatus

ACTIVE: Final = "active"
STANDBY: Final = "standby"
NAME: Final = 100
"""Characters of the name of a replica that are shown."""
Version = Annotated[str, Published({"description": "A digest; empty for none yet."})]
_Time = Annotated[
    str,
    Form("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", "must be a time such as `2026-11-28T09:00:00Z`"),
    Published({"format": "date-time"}),
]


class ServerPhase(StrEnum):
    """The phase of a server's life."""

    STARTING = "starting"
    """There is no snapshot yet, or the stored ones wait for the first compile."""
    SERVING = "serving"
    DRAINING = "draining"


@record
class TypeRow:
    """One type of resource on one stream."""

    type: str
    wanted: Version
    sent: Version
    acknowledged: Version
    error: str
    """The error message of the client's last NACK, until it has acknowledged other versions of the refused resources,
    has ended its subscription to them, or they are removed; empty otherwise."""


@record
class NodeRow:
    """One stream of a proxy. Versions are digests of whole snapshots, and empty if there is none yet."""

    id: str
    claimed: str
    """The service in its node's `cluster`. It is authoritative in plain text only."""
    address: str
    identity: str
    """Its authenticated identity; empty in plain text."""
    agent: str
    variant: Annotated[str, OneOf(("sotw", "delta"))]
    since: _Time
    wanted: Version
    sent: Version
    """The version whose resources it was sent last."""
    acknowledged: Version
    """The last version of which it has acknowledged all resources that it can use."""
    in_sync: bool
    error: str
    """The first of its types' errors."""
    types: tuple[TypeRow, ...]


@record
class AdmRow:
    """A service that has an ADM, or whose proxies are connected although it has none."""

    service: str
    in_plan: bool
    wanted: Version
    in_sync: bool
    """Whether it has proxies, and all of them are in sync."""
    nodes: tuple[NodeRow, ...]


@record
class NetworkRow:
    """A policy that a NetworkPolicy enforces without an ADM. It refuses new connections: one that is older than the
    NetworkPolicy stays open."""

    policy: str
    destination: str


@record
class _EarlierServerRow:
    """As the schema version before had it."""

    version: str
    phase: ServerPhase
    why: str
    """The problem with the last change of its files, or else what it waits for; empty if there is neither."""
    rollout: str
    """What its rollout to another plan waits for, or else which redirection or NetworkPolicy is missing; empty if there
    is nothing."""
    app: str
    source: str
    """What it follows; with files, the absolute path of the program or plan."""
    unlisted: tuple[str, ...]
    """Services and outside parties without addresses: connections that may be theirs are refused."""
    state: str
    """The version of the active state."""
    since: _Time
    role: Annotated[str, OneOf((ACTIVE, STANDBY, "unsure"))]
    """`active`, `standby`, or `unsure`: it was the active one of several replicas, and does not know whether another
    one is by now. A server that no other one replaces is always `active`."""
    holder: str
    """The replica that is active, as far as this one knows; empty without replicas."""


@record
class ServerRow(_EarlierServerRow):
    """What a server says of itself."""

    in_network: tuple[NetworkRow, ...]
    """The policies that NetworkPolicies enforce without an ADM; in a rollout, those of both plans."""


@record
class _EarlierStatus:
    schema_version: Literal[2]
    server: _EarlierServerRow
    adms: tuple[AdmRow, ...]


@record
class Status:
    """What a server sent to which proxy, and what the proxy answered (docs/operations.md)."""

    schema_version: Literal[3]
    server: ServerRow
    adms: tuple[AdmRow, ...]

    @property
    def settled(self) -> bool:
        """Whether this server is active, there is no problem and no rollout, and every ADM is in sync."""
        return self.server.role == ACTIVE and not self.server.why and all(adm.in_sync for adm in self.adms)


@record
class Commanded:
    """The answer to a command of the operator about the rollout."""

    app: str
    outcome: str


class StatusFormatError(Exception):
    """The text is not a status that this admc can read."""


def collect(
    server: ServerRow, adms: Iterable[str], wanted: Mapping[str, str], clients: Iterable[ClientStatus]
) -> Status:
    """The current status. `adms` are the services of the plan's ADMs; `wanted` is service -> version of its
    snapshot."""
    planned = frozenset(adms)
    nodes: dict[str, list[NodeRow]] = {name: [] for name in planned}
    for client in clients:
        nodes.setdefault(client.group, []).append(_node(client))
    rows = (
        AdmRow(
            service,
            service in planned,
            wanted.get(service, ""),
            bool(nodes[service]) and all(node.in_sync for node in nodes[service]),
            tuple(sorted(nodes[service])),
        )
        for service in sorted(nodes)
    )
    return Status(3, server, tuple(rows))


def server_row(
    *,
    phase: ServerPhase,
    app: str,
    source: str,
    state: str,
    started: float,
    why: str = "",
    rollout: str = "",
    unlisted: tuple[str, ...] = (),
    role: str = ACTIVE,
    holder: str = "",
    in_network: tuple[NetworkRow, ...] = (),
) -> ServerRow:
    """The row of this server. `started` is in seconds since 1970."""
    since = _time(started)
    return ServerRow(__version__, phase, why, rollout, app, source, unlisted, state, since, role, holder, in_network)


def standing_by(row: ServerRow) -> str:
    """A sentence about a replica that stands by."""
    return f"this replica stands by; {active_replica(row.holder)}"


def active_replica(holder: str) -> str:
    return f"`{visible(holder[:NAME])}` is active" if holder else "no replica is known to be active"


def in_network(placements: Iterable[Placement]) -> tuple[NetworkRow, ...]:
    """The policies of some placements that NetworkPolicies enforce without an ADM, in their order."""
    rows = (
        NetworkRow(decision.policy, decision.destination)
        for placement in placements
        for decision in placement.decisions
        if decision.place is Place.NETWORK
    )
    return tuple(dict.fromkeys(rows))


def _node(client: ClientStatus) -> NodeRow:
    from xds_server.resources.types import short

    types = tuple(
        TypeRow(short(item.type_url), item.wanted, item.sent, item.acknowledged, concealed_text(item.error).rstrip())
        for item in client.types
    )
    error = next((item.error for item in types if item.error), "")
    return NodeRow(
        id=client.node.id,
        claimed=client.node.cluster,
        address=client.peer,
        identity=client.identity,
        agent=client.node.user_agent,
        variant=client.variant,
        since=_time(client.since),
        wanted=client.wanted,
        sent=client.sent,
        acknowledged=client.acknowledged,
        in_sync=bool(client.wanted) and client.wanted == client.acknowledged and not error,
        error=error,
        types=types,
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- JSON ----


def to_json(status: Status) -> bytes:
    """Canonical bytes, with a final line break: pure ASCII, one field a line."""
    return (json.dumps(plain(status), indent=2) + "\n").encode("ascii")


def from_json(content: bytes) -> Status:
    """Read the status of another admc. Raises `StatusFormatError`."""
    try:
        return _read(content)
    except DocumentError as error:
        raise StatusFormatError(error.message) from error


def _read(content: bytes) -> Status:
    try:
        return read(Status, content)
    except VersionError as error:
        if error.newer:
            raise
        newest = error
    try:
        earlier = read(_EarlierStatus, content)
    except VersionError:
        raise newest from None
    return Status(3, ServerRow(**dict(fields_of(earlier.server)), in_network=()), earlier.adms)
