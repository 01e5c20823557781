"""Counts and bounds the memory that the server holds for all streams of one client, and for all clients together.

The bounds of one stream are wide: a client may subscribe to thousands of names that do not exist yet. A thousand such
streams would take all memory of the machine. A name that the snapshot has when the client subscribes to it is not
counted, because the server holds it anyway.
"""

from __future__ import annotations

from collections import Counter
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from xds_server.protocol.wire import DeltaRequest, SotwRequest
from xds_server.resources.snapshot import Claimed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xds_server.protocol.stream import RequestT, Stream
    from xds_server.protocol.subscription import Subscription
    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import Request, Response
    from xds_server.resources.snapshot import ClientResource, Resource

NAME_BYTES: Final = 128
"""The bytes that a name takes, besides the string itself."""
ANSWER_BYTES: Final = 192
"""Half of the bytes that a name in a response takes, besides the string, until the client acknowledges the response."""
QUEUED: Final = 8
"""The number of unread responses that are not counted: one of each type, and a few more."""


class _TypeMemory:
    """The memory of one type on one stream, in bytes, with the values from which it was computed."""

    __slots__ = ("answers", "claims", "error", "known", "nacked", "names", "refusals", "subscription", "unknown_names")

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.names = 0
        self.unknown_names = 0
        self.answers = 0
        self.known: Mapping[str, ClientResource] | None = None
        self.claims = 0
        self.nacked: Mapping[str, str | None] | None = None
        self.error = ""
        self.refusals = 0

    @property
    def weight(self) -> int:
        return self.names + self.answers + self.claims + self.refusals


class StreamMemory:
    """The memory of one stream."""

    __slots__ = ("_kept", "_queued", "_seen", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self._queued = 0
        self._kept: dict[str, _TypeMemory] = {}
        """Types that take memory."""
        self._seen: dict[str, Subscription] = {}

    def account(self, machine: Stream[RequestT], request: RequestT, outbox: Sequence[Response]) -> int:
        """The change of the memory by a request. Most requests are ACKs, for which this takes hardly any time."""
        state = machine.type_state(request.type_url)
        queued = 0
        if len(outbox) > QUEUED:
            queued = sum(len(response.payload.body) for response in outbox[QUEUED:])
        change, self._queued = queued - self._queued, queued
        if state is not None:
            seen = self._seen.get(request.type_url) is state.subscription
            if not seen or request.type_url in self._kept or state.unknown_names or state.nacked or state.error:
                change += self._weigh(state, request, machine.snapshot.of_type(request.type_url).resources)
        self.weight += change
        return change

    def _weigh(self, state: TypeState, request: Request, there: Mapping[str, Resource]) -> int:
        kept = self._kept.get(state.type_url) or _TypeMemory()
        before = kept.weight
        if kept.subscription is not state.subscription:
            kept.subscription = self._seen[state.type_url] = state.subscription
            kept.names = _weight(state.subscription.names.difference(there), NAME_BYTES)
        if not state.pending_acks:
            kept.answers = 0
        elif state.unknown_names > kept.unknown_names:
            # The name is held once as a name, and once in the bytes of the response.
            kept.answers += 2 * _weight([name for name in _names(request) if name not in there], ANSWER_BYTES)
        kept.unknown_names = state.unknown_names
        if (kept.claims or _claims(request)) and kept.known is not state.known:
            kept.known = state.known
            claims = {name: item for name, item in state.known.items() if isinstance(item, Claimed)}
            kept.claims = _weight(claims, NAME_BYTES) + _weight(
                (claim.version for claim in claims.values()), NAME_BYTES
            )
        if kept.nacked is not state.nacked or kept.error is not state.error:
            kept.nacked, kept.error = state.nacked, state.error
            kept.refusals = _weight([name for name in state.nacked if name not in there], NAME_BYTES)
            kept.refusals += getsizeof(state.error) if state.error else 0
        if kept.weight:
            self._kept[state.type_url] = kept
        else:
            self._kept.pop(state.type_url, None)
        return kept.weight - before


class MemoryBudget:
    """The memory of all clients. A client holds the sum of its streams."""

    def __init__(self, per_client: int, total: int) -> None:
        """`per_client` and `total` are limits in bytes: for one client, and for all clients. Beyond the total, a client
        with more than an equal share of it gets no more."""
        self._per_client = per_client
        self._total = total
        self._held: Counter[str] = Counter()
        self.sum = 0

    def held(self, client: str) -> int:
        return self._held[client]

    def charge(self, client: str, change: int) -> bool:
        """Count a change, and return whether the client is then within the bounds. A change that is no increase always
        is."""
        held = self._held[client] = self._held[client] + change
        self.sum += change
        if not held:
            del self._held[client]
        if change <= 0:
            return True
        return held <= self._per_client and (self.sum <= self._total or held * len(self._held) <= self._total)


def _weight(texts: Iterable[str], besides: int) -> int:
    sizes = [getsizeof(text) for text in texts]
    return sum(sizes) + besides * len(sizes)


def _names(request: Request) -> tuple[str, ...]:
    if isinstance(request, SotwRequest):
        return request.names
    return request.subscribe + request.unsubscribe if isinstance(request, DeltaRequest) else ()


def _claims(request: Request) -> bool:
    return isinstance(request, DeltaRequest) and bool(request.initial)
