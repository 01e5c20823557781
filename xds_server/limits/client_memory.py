"""What all streams of one client together make the server keep that nobody else has.

The bounds of one stream are wide: a client may ask for a thousand things that do not exist yet. A thousand streams of
it, each as far as it may go, would take all memory that there is. Names that the snapshot has are not counted: there
are no more of them than the server has made itself.
"""

from __future__ import annotations

from collections import Counter
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from xds_server.protocol.wire import DeltaRequest, SotwRequest
from xds_server.resources.snapshot import Claimed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xds_server.protocol.stream import Stream
    from xds_server.protocol.subscription import Subscription
    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import Response

NAME_BYTES: Final = 128
"""What it takes to keep a name, besides the name itself ..."""
ANSWER_BYTES: Final = 192
"""... and, twice, to keep that it was answered, until the answer is."""
QUEUED: Final = 8
"""Responses that any client may leave unread: one of each type, and a little more."""


class _TypeMemory:
    """Of one type, in bytes, with what it was computed from."""

    __slots__ = ("answers", "claims", "error", "known", "nacked", "names", "refusals", "subscription", "unknown_names")

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.names = 0
        self.unknown_names = 0
        self.answers = 0
        self.known: object = None
        self.claims = 0
        self.nacked: object = None
        self.error = ""
        self.refusals = 0

    @property
    def weight(self) -> int:
        return self.names + self.answers + self.claims + self.refusals


class StreamMemory:
    """Of one stream."""

    __slots__ = ("_kept", "_queued", "_seen", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self._queued = 0
        self._kept: dict[str, _TypeMemory] = {}
        """Where there is anything."""
        self._seen: dict[str, Subscription] = {}

    def account(self, machine: Stream, request: SotwRequest | DeltaRequest, outbox: Sequence[Response]) -> int:
        """After a request: how much more, or less, is kept. Takes no time for an answer, as most requests are."""
        state = machine.type_state(request.type_url)
        queued = 0
        if len(outbox) > QUEUED:
            queued = sum(len(each.payload.body) for each in outbox[QUEUED:])
        change, self._queued = queued - self._queued, queued
        if state is not None:
            seen = self._seen.get(request.type_url) is state.subscription
            if not seen or request.type_url in self._kept or state.unknown_names or state.nacked or state.error:
                change += self._weigh(state, request, machine.snapshot.of_type(request.type_url).resources)
        self.weight += change
        return change

    def _weigh(self, state: TypeState, request: SotwRequest | DeltaRequest, there: Mapping[str, object]) -> int:
        kept = self._kept.get(state.type_url) or _TypeMemory()
        before = kept.weight
        if kept.subscription is not state.subscription:
            kept.subscription = self._seen[state.type_url] = state.subscription
            kept.names = _weight(state.subscription.names.difference(there), NAME_BYTES)
        if not state.pending_acks:
            kept.answers = 0
        elif state.unknown_names > kept.unknown_names:
            # Once as a name, and once in the bytes of the answer.
            kept.answers += 2 * _weight([each for each in _names(request) if each not in there], ANSWER_BYTES)
        kept.unknown_names = state.unknown_names
        if (kept.claims or _claims(request)) and kept.known is not state.known:
            kept.known = state.known
            found = {name: item for name, item in state.known.items() if isinstance(item, Claimed)}
            kept.claims = _weight(found, NAME_BYTES) + _weight((each.version for each in found.values()), NAME_BYTES)
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
    """Of all clients. What a client holds is the sum of its streams."""

    def __init__(self, each: int, total: int) -> None:
        """`each`: bytes for a client; `total`: for all together. Beyond that, who has more than an equal share of it
        may not have more."""
        self._each = each
        self._total = total
        self._held: Counter[str] = Counter()
        self.sum = 0

    def held(self, client: str) -> int:
        return self._held[client]

    def take(self, client: str, change: int) -> bool:
        """Count it; whether that is within the bounds."""
        held = self._held[client] = self._held[client] + change
        self.sum += change
        if not held:
            del self._held[client]
        if change <= 0:
            return True
        return held <= self._each and (self.sum <= self._total or held * len(self._held) <= self._total)


def _weight(texts: Iterable[str], besides: int) -> int:
    sizes = [getsizeof(text) for text in texts]
    return sum(sizes) + besides * len(sizes)


def _names(request: SotwRequest | DeltaRequest) -> tuple[str, ...]:
    return request.names if isinstance(request, SotwRequest) else request.subscribe + request.unsubscribe


def _claims(request: SotwRequest | DeltaRequest) -> bool:
    return isinstance(request, DeltaRequest) and bool(request.initial)
