"""Defines the interface through which the server receives its inputs. Files or a cluster implement it.

The server does not know which of the two it has. All methods are called on the server's event loop and do not block it,
except those of `Storage` and some of `Redirection`, which are called in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from prometheus_client.metrics_core import Metric

    from admc.serve.compiling.source import Source, State
    from admc.serve.file_watch import Signature
    from admc.serve.observe.problems import Problems
    from admc.serve.rollout.model import Placed, Step
    from admc.serve.storage.position import Position, Recipe, StoredState
    from dsl.program import Program
    from emitters.addresses import Addresses
    from emitters.kubernetes import ClosedTargets
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.client import Admission, Caller
    from xds_server.transport.server import XdsServer


class Programs(Protocol):
    """The program, by content, all files at once."""

    async def current(self) -> Source | None:
        """Return the source to compile; None while there is no program."""

    def compiled(self, files: Signature) -> None:
        """Note the files on disk that the last compile read, with those that are missing."""

    async def changed(self) -> None:
        """Wait until the program differs from the last one that `current` returned."""


class AddressSource(Protocol):
    """The addresses of services, in the form of an endpoints file (docs/endpoints.md)."""

    async def current(self) -> bytes:
        """Return the endpoints file. Raises `CommandError` if the addresses cannot be read."""

    async def changed(self) -> None:
        """Wait until the addresses differ from the last ones that `current` returned."""


class Identifier(Protocol):
    """Identifies the clients of one program."""

    def identify(self, caller: Caller) -> Admission:
        """The service of a client. Raises `DeniedError`."""

    def may_administer(self, caller: Caller) -> bool:
        """Whether a client may read the configuration of every other one."""


class IdentitySource(Protocol):
    async def of(self, program: Program, *, ignore_unknown: bool = False) -> Identifier:
        """Return the identifier of a program. Raises `CommandError`. With `ignore_unknown`, a name that is no service
        of the program is no error."""

    async def changed(self) -> Collection[str] | None:
        """Wait until clients have to be identified again. Return the services whose clients are concerned, by the same
        `Identifier`; or None if all clients are concerned, by a new `Identifier`."""


class Storage(Protocol):
    """The storage of the state that outlives the process. Its methods block, so they are called in a thread."""

    @property
    def name(self) -> str:
        """The place of the storage, for the log."""

    @property
    def kind(self) -> str:
        """The kind of storage, for sentences, such as "the folder"."""

    @property
    def may_begin_anew(self) -> bool:
        """Whether a state that cannot be used may be replaced. It may, if proxies have only one plan, as far as is
        known."""

    def load(self) -> StoredState | None:
        """Return the stored state; None if there is none. Raises `CommandError` (ADM854) if it cannot be used."""

    def save(self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = ()) -> object:
        """Replace the stored state. Without a position, the stored position stays. `refusing` has the services of
        which a proxy refuses its published snapshot. A storage may leave out snapshots that the server can build again
        after `load`. Raises `CommandError`; then the earlier state is still stored."""

    def save_as_owner(
        self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = ()
    ) -> None:
        """Save as `save` does, before proxies receive a label that a restarted server has to know. Also raises
        `CommandError` if another server may have written to the storage."""

    def renew(self) -> bool:
        """Return whether the stored state was removed or changed from outside. The next `save` then writes all of it
        again. Raises `CommandError` if the storage cannot be read."""

    def close(self) -> None: ...


class Redirection(Protocol):
    """Requests redirection where policies need it, and knows which redirection is loaded. `text`, `missing` and
    `proxies` are called on the event loop, all other methods in a thread. They raise `CommandError` if their record
    cannot be stored."""

    @property
    def text(self) -> str:
        """A sentence with the redirection that the operator has to load; empty if none is missing."""

    def load_record(self) -> None:
        """The server has started: read the record of an earlier one."""

    def resume(self) -> None:
        """The server continues from a stored state."""

    def begin(self, old: Placed | None) -> None:
        """Note that the first plan is published, or that a rollout from this plan begins. None if the plan needs no
        redirection."""

    def ask(self, placed: Placed, addresses: Addresses) -> None:
        """Request the redirection of a plan, and no other."""

    def confirm(self) -> None:
        """Read the confirmations."""

    def keep(self) -> bool:
        """Write files again that were removed or changed from outside. Returns whether there were any."""

    def missing(self, step: Step) -> tuple[str, ...]:
        """The services that lack redirection, as far as is known, which has to be loaded before the step after this
        one."""

    def proxies(self, service: str) -> frozenset[str] | None:
        """Return the node ids of the proxies of a service, connected or not; None if they are not known."""


class Closing(Protocol):
    """The NetworkPolicies of closed destinations (R7)."""

    def ask(self, destinations: Mapping[str, ClosedTargets]) -> None:
        """Close exactly these destinations at exactly these targets, and open all others. Returns at once; the work is
        done, and repeated when needed, beside the server."""

    def missing(self, destinations: Collection[str]) -> tuple[str, ...]:
        """Return the destinations that are not known to be closed as the last `ask` wanted, sorted. A rollout waits for
        them."""

    @property
    def text(self) -> str:
        """A sentence with the NetworkPolicies that the operator has to apply; empty if there are none."""


class BegunStep(NamedTuple):
    """A rollout step that has begun."""

    number: int
    """It grows by one with each step that begins in this process."""
    text: str
    """A sentence with the policies that move, and the name of the step."""


class Serving(Protocol):
    """The read-only view of the server that its environment has."""

    @property
    def server(self) -> XdsServer: ...
    @property
    def state(self) -> State | None:
        """The wanted state; None before the first one."""

    @property
    def recipe(self) -> Recipe | None:
        """The inputs from which the wanted state was built."""

    @property
    def placed(self) -> tuple[Placed, ...]:
        """All plans of which a proxy may enforce a part; the last one is the newest plan."""

    @property
    def published(self) -> tuple[Placed, ...]:
        """The plans of which a part is published now: two in the middle of a rollout."""

    @property
    def problems(self) -> Problems: ...
    @property
    def ready(self) -> bool: ...
    @property
    def rollout_text(self) -> str:
        """A sentence with the event for which the rollout waits. If no rollout is under way, a sentence with
        redirection or NetworkPolicies that are missing; empty if none are."""

    @property
    def rollout_steps(self) -> Iterable[BegunStep]:
        """The steps of rollouts that have begun last in this process, the newest one at the end."""


class Replica(NamedTuple):
    """Which of several replicas a server is."""

    role: str
    """`active`, `standby` or `unsure`."""
    holder: str
    """The replica that is active, as far as this one knows."""
    resign: Callable[[], Awaitable[None]]
    """Lets another replica become the active one. The server calls it when it has stored its last state, and publishes
    nothing more."""


class Environment(Protocol):
    """Everything that a server needs from outside."""

    @property
    def source(self) -> str:
        """The source that the server follows, for the status."""

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
        """None: destinations count as closed."""

    def announced(self, plans: Sequence[Placed], recipe: Recipe | None) -> AbstractAsyncContextManager[object]:
        """Make known what pods need that start from now on, before the last of these plans is begun. The server enters
        this before it accepts a plan, and leaves it when the plan is among those of `Serving.placed`, or is refused. To
        enter it raises `CommandError`: with the exit code NO_PLACEMENT if the plan cannot be made known, else if it
        cannot at present. `recipe` has the inputs of the last plan."""

    def services(self, serving: Serving) -> Iterable[Callable[[Any], None]]:
        """Functions that each add a gRPC service to the gRPC server. The server calls this once, before it listens."""

    @property
    def replica(self) -> Replica | None:
        """None: no other server can take its place."""

    def metrics(self) -> Iterable[Metric]:
        """The metrics of the environment itself."""

    @property
    def is_prepared(self) -> bool:
        """Whether the server is ready although it serves nothing yet, because it waits for a program."""

    def may_publish(self) -> bool:
        """Whether this server leads the proxies. While it does not, it stores and publishes nothing new, and proxies
        keep their configuration. The server calls this before each store and each publication, so the answer must be
        exact at that moment."""

    async def run(self) -> int:
        """Runs beside the server from the moment that it listens, until it is cancelled after the last store. If it
        returns, the server stops with that exit code."""
