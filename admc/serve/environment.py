"""What the server takes from outside: one interface, with files or a cluster behind it.

Nothing that uses it asks which of the two it is. Methods that may block are coroutines or say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.rollout.model import Placed, Step
    from admc.serve.build.source import Source
    from admc.serve.file_watch import Signature
    from admc.serve.files.state_dir import Position, StoredState
    from dsl.program import Program
    from emitters.addresses import Addresses
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.client import Admission, Caller


class Programs(Protocol):
    """The program, by content, all files at once."""

    async def current(self) -> Source | None:
        """What to compile now; None while there is no program."""

    def compiled(self, files: Signature) -> None:
        """The files that the last compile read, also those that are missing."""

    async def changed(self) -> None:
        """Wait until `current` would return something else than it did last, or its files differ."""


class AddressSource(Protocol):
    """The addresses of services, in the form of an endpoints file (docs/endpoints.md)."""

    async def current(self) -> bytes:
        """Raises `CommandError` where they cannot be read."""

    async def changed(self) -> None:
        """Wait until they differ from what `current` returned last."""


class Identifier(Protocol):
    """Who is who, for one program."""

    def identify(self, caller: Caller) -> Admission:
        """The service of a client. Raises `DeniedError`. Never blocks."""

    def may_administer(self, caller: Caller) -> bool: ...


class IdentitySource(Protocol):
    async def of(self, program: Program, *, ignore_unknown: bool = False) -> Identifier:
        """Raises `CommandError`."""

    async def changed(self) -> None:
        """Wait until clients have to be identified anew."""


class Storage(Protocol):
    """What outlives the process. Methods block: call them in a thread."""

    @property
    def name(self) -> str:
        """Where it is, for messages."""

    @property
    def may_begin_anew(self) -> bool:
        """Whether a state that cannot be used may be replaced: proxies have one plan, as far as is known."""

    def load(self) -> StoredState | None:
        """Raises `CommandError` (ADM854) where it cannot be used."""

    def save(self, position: Position | None, groups: Mapping[str, Snapshot]) -> None: ...

    def save_as_owner(self, position: Position | None, groups: Mapping[str, Snapshot]) -> None: ...

    def renew(self) -> bool:
        """Write everything again if something outside removed or changed it. Returns whether."""

    def close(self) -> None: ...


class Redirection(Protocol):
    """Which redirection is loaded where policies need it. Methods block: call them in a thread; `text` and `missing` do
    not."""

    @property
    def text(self) -> str:
        """What the operator has to do, in a sentence; empty if it is nothing."""

    def recall(self) -> None: ...

    def resume(self) -> None: ...

    def begin(self, old: Placed | None) -> None: ...

    def ask(self, placed: Placed, addresses: Addresses) -> None: ...

    def confirm(self) -> None: ...

    def keep(self) -> bool: ...

    def missing(self, step: Step) -> tuple[str, ...]:
        """The services whose redirection has to be loaded before the next step."""


class Closing(Protocol):
    """The NetworkPolicies of closed destinations (R7)."""

    async def close(self, destinations: Mapping[str, Program]) -> None:
        """Ask that these be closed, in addition to those before; a destination is closed as its program says."""

    async def open_all_but(self, destinations: Collection[str]) -> None:
        """Closed destinations that no plan needs any more are opened."""

    def missing(self, step: Step) -> tuple[str, ...]:
        """The destinations that the step relies on and that are not known to be closed yet."""


class Environment(Protocol):
    """All of it."""

    programs: Programs
    addresses: AddressSource | None
    identities: IdentitySource
    storage: Storage | None
    redirection: Redirection
    closing: Closing | None
    """None: taken for granted."""
