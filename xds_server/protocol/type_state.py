"""One type of resource on one stream: what the client subscribes to, which resources it has, and which ACKs it owes.

A client *has* a resource from the moment when the server sends it. If the client refuses the resource, the client has
the version that it had before.
Mappings of resources are replaced and never changed, so that streams with the same resources share one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from xds_server.protocol.subscription import Subscription
from xds_server.resources.snapshot import ClientResource, Collection, Resource

if TYPE_CHECKING:
    from xds_server.resources.snapshot import Snapshot

NOTHING: Final[Mapping[str, ClientResource]] = MappingProxyType({})

NO_NAMES: Final[frozenset[str]] = frozenset()
MAX_UNREFERENCED: Final = 1_000
"""The most names in `TypeState.unreferenced` that the snapshot does not have."""


class PendingAck(NamedTuple):
    """A response that the client has neither acknowledged nor refused yet."""

    version: str
    content: Mapping[str, ClientResource | None]
    """The resources in the response; None is a removal. Of a whole response, only the resources that it changes."""
    whole: Mapping[str, ClientResource] | None
    """All resources in a whole response."""
    before: Mapping[str, ClientResource]
    """The resources that the client had before the response."""

    def has(self, name: str, version: str | None) -> bool:
        """Whether the response has this version of a resource. With None: whether it removes the resource."""
        content = self.content if self.whole is None else self.whole
        if self.whole is None and name not in content:
            return False
        item = content.get(name)
        return (item.version if item else None) == version


class TypeStatus(NamedTuple):
    """The versions of one type on one stream, as the status of a client shows them."""

    type_url: str
    wanted: str
    sent: str
    acknowledged: str
    error: str


class _Unreferenced(NamedTuple):
    """The last result of `TypeState.unreferenced` with its operands."""

    referenced: frozenset[str]
    collection: Collection
    subscription: Subscription
    result: frozenset[str]

    def fits(self, referenced: frozenset[str], collection: Collection, subscription: Subscription) -> bool:
        """Whether the operands are the same. Most snapshots differ from the one before in endpoints alone."""
        return (
            self.subscription is subscription
            and self.collection is collection
            and (self.referenced is referenced or self.referenced == referenced)
        )


@dataclass(slots=True, eq=False)
class TypeState:
    """One type of resource on one stream."""

    type_url: str
    subscription: Subscription = field(default_factory=Subscription)
    requested: bool = False
    """Whether there was a request of this type."""
    known: Mapping[str, ClientResource] = field(default_factory=lambda: NOTHING)
    """The resources that the client has."""
    owed: set[str] = field(default_factory=set)
    """Names to be sent because of a request, even if the client has them."""
    resend: set[str] = field(default_factory=set)
    """Names to be sent because a new resource that warms up uses them, even if the client has them."""
    answer_due: bool = False
    """Whether a response has to be sent even if it is empty."""
    pending_acks: dict[str, PendingAck] = field(default_factory=dict)
    """Responses without an ACK or NACK, by nonce."""
    nacked: Mapping[str, str | None] = field(default_factory=dict)
    """The versions that the client refused; None is a removal. The same version is not sent again by itself."""
    unknown_names: int = 0
    """The number of names that do not exist in responses since the client last owed no ACK. Such responses are made for
    this stream alone."""
    sequence: int = 0
    sent: str = ""
    acknowledged: str = ""
    error: str = ""
    """The message of the last NACK, until the client has acknowledged another version or ended its subscription."""
    _wanted: tuple[Collection, Subscription, Mapping[str, Resource]] | None = None
    _unreferenced: _Unreferenced | None = None

    @property
    def last_nonce(self) -> str:
        return str(self.sequence) if self.sequence else ""

    def wanted(self, collection: Collection) -> Mapping[str, Resource]:
        """The resources of a collection that the client subscribes to."""
        cached = self._wanted
        if cached is not None and cached[0] is collection and cached[1] is self.subscription:
            return cached[2]
        there, names = collection.resources, self.subscription.names
        if self.subscription.wildcard or there.keys() <= names:
            result = there
        else:
            result = {name: there[name] for name in sorted(names) if name in there}
        self._wanted = (collection, self.subscription, result)
        return result

    def unreferenced(self, snapshot: Snapshot) -> frozenset[str]:
        """The names in the subscription to which no resource of a snapshot refers: all such names that the snapshot
        has, and at most `MAX_UNREFERENCED` others."""
        referenced, collection = snapshot.referenced.get(self.type_url, NO_NAMES), snapshot.of_type(self.type_url)
        cached = self._unreferenced
        if cached is not None and cached.fits(referenced, collection, self.subscription):
            return cached.result
        result = self.subscription.names - referenced
        if len(result) > MAX_UNREFERENCED:
            served = result & collection.resources.keys()
            result = served.union(sorted(result - served)[:MAX_UNREFERENCED])
        self._unreferenced = _Unreferenced(referenced, collection, self.subscription, result)
        return result

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription. Resources outside of it are forgotten."""
        self.subscription = subscription
        if not subscription.wildcard:
            if not self.known.keys() <= subscription.names:
                self.known = {name: item for name, item in self.known.items() if name in subscription.names}
            self.owed &= subscription.names
            self.resend &= subscription.names

    def send(self, response: PendingAck, after: Mapping[str, ClientResource]) -> str:
        """Note a response, and return its nonce. `after`: the resources that the client has after the response."""
        self.sequence += 1
        self.known = after
        self.sent = response.version
        nonce = str(self.sequence)
        self.pending_acks[nonce] = response
        return nonce

    @property
    def new(self) -> frozenset[str]:
        """Names of which the client had no version before the responses that it has not acknowledged yet."""
        return frozenset(
            name for pending in self.pending_acks.values() for name in pending.content if name not in pending.before
        )

    @property
    def in_doubt(self) -> bool:
        """Whether the client has refused a resource, or has not yet acknowledged its replacement."""
        return bool(self.nacked) or bool(self.error and self.pending_acks)

    def ack(self, nonce: str) -> PendingAck | None:
        """Handle an ACK, and return the response. None if no response with this nonce waits for an ACK."""
        response = self._answered(nonce)
        if response is None:
            return None
        self.acknowledged = response.version
        if self.nacked:
            # A client may ask again for a resource that it refused, and acknowledge it then.
            self.nacked = {name: version for name, version in self.nacked.items() if not response.has(name, version)}
        if not self.nacked:
            self.error = ""
        return response

    def nack(self, nonce: str, error: str) -> PendingAck | None:
        """Handle a NACK: the client keeps its earlier versions of the names in the response. None as in `ack`."""
        response = self._answered(nonce)
        if response is None:
            return None
        known = dict(self.known)
        for name, item in response.content.items():
            before = response.before.get(name)
            if known.get(name) is item:  # also for a removal: both are None
                known.pop(name, None)
                if before is not None and self.subscription.covers(name):
                    known[name] = before
        self.known = dict(sorted(known.items()))
        self._correct_later_responses(response)
        versions = response.content if response.whole is None else {**response.content, **response.whole}
        self.nacked = {
            **(self.nacked if response.whole is None else {}),
            **{name: item.version if item else None for name, item in versions.items()},
        }
        self.error = error
        return response

    def _correct_later_responses(self, nacked: PendingAck) -> None:
        """Correct `before` of later responses, which contains resources that the client has refused now."""
        for nonce, later in self.pending_acks.items():
            same = {name for name, item in nacked.content.items() if later.before.get(name) is item}
            before = {**later.before, **{name: nacked.before.get(name) for name in same}}
            self.pending_acks[nonce] = later._replace(before={name: item for name, item in before.items() if item})

    def _answered(self, nonce: str) -> PendingAck | None:
        response = self.pending_acks.pop(nonce, None)
        if not self.pending_acks:
            self.unknown_names = 0
        return response

    def may_retry(self, wanted: Mapping[str, ClientResource], now: Mapping[str, ClientResource]) -> bool:
        """Whether to send the refused resources again: one of them has another version now, or the client has ended its
        subscription to one of them.

        A NACK does not name the wrong resources of a response, or the resources that the client uses nevertheless. So
        all resources of a refused response are sent again together as soon as one of them has changed. `now` is
        `wanted` with the resources that are to be removed later: until then, a refused removal is no change.
        """
        return any(
            not self.subscription.covers(name)
            or (item.version if (item := (wanted if version is None else now).get(name)) else None) != version
            for name, version in self.nacked.items()
        )

    def retry(self, *, whole: bool) -> None:
        """Owe the names that the client refused."""
        names = {name for name in self.nacked if self.subscription.covers(name)}
        self.nacked = {}
        self.owed |= names
        self.answer_due |= whole and bool(names)
        if not names:
            self.error = ""
