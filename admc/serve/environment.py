"""What the server takes from outside: one interface, with files or a cluster behind it.

Nothing that uses it asks which of the two it is. All methods are called on the server's event loop and do not block it,
except those of `Storage` and some of `Redirection`, which are called in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from prometheus_client.metrics_core import Metric

    from admc.serve.compiling.source import Source, State
    from admc.serve.file_watch import Signature
    from admc.serve.observe.problems import Problems
    from admc.serve.rollout.model import Placed, Step
    from admc.serve.storage.position import Position, Recipe, StoredState
    from dsl.program import Program
    from emitters.addresses import Addresses
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.client import Admission, Caller
    from xds_server.transport.server import XdsServer


class Programs(Protocol):
    """The program, by content, all files at once."""

    async def current(self) -> Source | None:
        """What to compile now; None while there is no program."""

    def compiled(self, files: Signature) -> None:
        """The files on disk that the last compile read, also those that are missing."""

    async def changed(self) -> None:
        """Wait until the program differs from what `current` returned last."""


class AddressSource(Protocol):
    """The addresses of services, in the form of an endpoints file (docs/endpoints.md)."""

    async def current(self) -> bytes:
        """Raises `CommandError` where they cannot be read."""

    async def changed(self) -> None:
        """Wait until they differ from what `current` returned last."""


class Identifier(Protocol):
    """Who is who, for one program."""

    def identify(self, caller: Caller) -> Admission:
        """The service of a client. Raises `DeniedError`."""

    def may_administer(self, caller: Caller) -> bool:
        """Whether a client may read the configuration of every other one."""


class IdentitySource(Protocol):
    async def of(self, program: Program, *, ignore_unknown: bool = False) -> Identifier:
        """Raises `CommandError`. `ignore_unknown`: names that are not services of this program are no errors."""

    async def changed(self) -> Collection[str] | None:
        """Wait until clients have to be identified again: those of these services, by the same `Identifier`; None: all
        clients, by a new one."""


class Storage(Protocol):
    """What outlives the process. Methods block: call them in a thread."""

    @property
    def name(self) -> str:
        """Where it is, for the log."""

    @property
    def kind(self) -> str:
        """What it is, for sentences, such as "the folder"."""

    @property
    def may_begin_anew(self) -> bool:
        """Whether a state that cannot be used may be replaced: proxies have one plan, as far as is known."""

    def load(self) -> StoredState | None:
        """What was kept; None where nothing was. Raises `CommandError` (ADM854) where it cannot be used."""

    def save(self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = ()) -> object:
        """Keep these instead; without a position, the one that is kept stays. Of the services in `refusing` a proxy
        refuses what is published. A storage may leave out snapshots that `load` then says can be made again. Raises
        `CommandError`: what was kept before is still there."""

    def save_as_owner(
        self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = ()
    ) -> None:
        """The same, before proxies receive something that a restarted server has to know of. Raises `CommandError` also
        where another server may have written there."""

    def renew(self) -> bool:
        """Whether the stored state was removed or changed from outside; the next `save` then writes all of it again.
        Raises `CommandError` where that cannot be."""

    def close(self) -> None: ...


class Redirection(Protocol):
    """Which redirection is loaded where policies need it. `text` and `missing` are called on the event loop, all other
    methods in a thread. They raise `CommandError` where what they store cannot be stored."""

    @property
    def text(self) -> str:
        """What the operator has to load, in a sentence; empty if it is nothing."""

    def recall(self) -> None:
        """The server has started: read the record of an earlier one."""

    def resume(self) -> None:
        """The server continues from a stored state."""

    def begin(self, old: Placed | None) -> None:
        """The first plan is published, or a rollout from this plan begins; None: nothing of it is redirected."""

    def ask(self, placed: Placed, addresses: Addresses) -> None:
        """Request what is needed from now on, and nothing else."""

    def confirm(self) -> None:
        """Read the confirmations."""

    def keep(self) -> bool:
        """Write what was removed or changed from outside again; returns whether something was."""

    def missing(self, step: Step) -> tuple[str, ...]:
        """The services whose redirection has to be loaded before the step after this one."""

    def proxies(self, service: str) -> frozenset[str] | None:
        """The nodes of the proxies that a service has, connected or not; None: they are not known."""


class Closing(Protocol):
    """The NetworkPolicies of closed destinations (R7)."""

    def ask(self, destinations: Mapping[str, Program]) -> None:
        """From now on close exactly these destinations, each as its program says, and open all others. Returns at once;
        it is carried out, and kept up, beside the server."""

    def missing(self, destinations: Collection[str]) -> tuple[str, ...]:
        """Those of the destinations that are not known to be closed as was asked last, sorted."""


class Serving(Protocol):
    """What the server shows to its environment, to be read only."""

    @property
    def server(self) -> XdsServer: ...
    @property
    def state(self) -> State | None:
        """The wanted state; None before the first one."""

    @property
    def recipe(self) -> Recipe | None:
        """What the wanted state was made from."""

    @property
    def placed(self) -> tuple[Placed, ...]:
        """All plans of which a proxy may enforce something, and the newest one, which is the last."""

    @property
    def published(self) -> tuple[Placed, ...]:
        """The plans of which something is published now: two in the middle of a rollout."""

    @property
    def problems(self) -> Problems: ...
    @property
    def ready(self) -> bool: ...
    @property
    def rollout_text(self) -> str:
        """What the rollout waits for, in a sentence; empty if none is under way."""


class Reach(NamedTuple):
    """How pods reach the server; empty where they are not known to."""

    installation: str = ""
    address: str = ""
    """`HOST:PORT` of its xDS port."""
    objects: Mapping[str, str] = MappingProxyType({})
    """Service -> the name of its Kubernetes Service, where that is not the usual one."""


class Replica(NamedTuple):
    """Which of several replicas a server is."""

    role: str
    """`active`, `standby` or `unsure`."""
    holder: str
    """The replica that is active, as far as this one knows."""


class Environment(Protocol):
    """All of it."""

    @property
    def source(self) -> str:
        """What the server follows, for the status."""

    @property
    def programs(self) -> Programs: ...
    @property
    def addresses(self) -> AddressSource | None:
        """None: no addresses are known."""

    @property
    def identities(self) -> IdentitySource: ...
    @property
    def storage(self) -> Storage | None:
        """None: a restarted server begins anew."""

    @property
    def redirection(self) -> Redirection: ...
    @property
    def closing(self) -> Closing | None:
        """None: destinations are taken for closed."""

    @property
    def reach(self) -> Reach:
        """For `/injection.json`."""

    def services(self, serving: Serving) -> Iterable[Callable[[Any], None]]:
        """Called once, before the server listens. Each function adds a gRPC service of its own to the gRPC server."""

    @property
    def replica(self) -> Replica | None:
        """None: no other server can take its place."""

    def metrics(self) -> Iterable[Metric]:
        """Those of the environment itself."""

    def may_publish(self) -> bool:
        """Whether this server is the one that leads proxies. While it is not, the server stores and publishes nothing
        new, and proxies keep what they have. Asked before each of these: it must be exact at that moment."""

    async def run(self) -> int:
        """Runs beside the server from the moment that it listens, until it is cancelled after the last store. If it
        returns, the server stops with that exit code."""
