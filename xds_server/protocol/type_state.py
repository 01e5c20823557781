"""One type of resource on one stream: what the client asked for, what it has, and what it has not answered yet.

A client *has* what was sent to it, until it refuses it: then it has what it had before. Mappings are replaced and never
changed, so that streams with the same resources share one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from xds_server.protocol.subscription import Subscription
from xds_server.protocol.wire import Composer
from xds_server.resources.snapshot import Collection, Difference, Known, Resource, difference, version_of
from xds_server.resources.types import ENDPOINTS, ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from xds_server.resources.snapshot import Snapshot

NOTHING: Final[Mapping[str, Known]] = MappingProxyType({})
REMEMBERED: Final = 128
"""So many results are kept for the next stream in step ..."""
REMEMBERED_NAMES: Final = 500_000
"""... with no more names than this in all that they were made of: a client can ask for names that nobody shares."""
FEW: Final = 16
"""What is made of so few resources is made faster than it is looked for, unless it was asked for last."""

MAX_UNREFERENCED: Final = 1_000
"""Names of one type and stream that a client made up, and that `Channel.unreferenced` holds at most."""

RESPONSE_BYTES: Final = 4_000_000
"""A little less than what clients of gRPC take in one message by default."""
ENVELOPE_BYTES: Final = 64
"""What lengths, keys and the version of a resource take at most."""


class Flight(NamedTuple):
    """A response that the client has not answered yet."""

    version: str
    content: Mapping[str, Known | None]
    """What it says, None being a removal. In a whole response, only what it changes."""
    whole: Mapping[str, Known] | None
    """All that is in a whole response."""
    before: Mapping[str, Known]
    """What the client had."""

    def says(self, name: str, version: str | None) -> bool:
        """Whether it has this version of a resource, or removes it."""
        said = self.content if self.whole is None else self.whole
        if self.whole is None and name not in said:
            return False
        item = said.get(name)
        return (item.version if item else None) == version


class Shared:
    """What streams compute alike: differences, versions and payloads, each done once."""

    def __init__(self, response_bytes: int = RESPONSE_BYTES) -> None:
        self.composer = Composer()
        self._response_bytes = response_bytes
        self._memo: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._names = 0
        """In what is remembered."""
        self._last: dict[object, tuple[object, ...]] = {}
        """Of each kind what was asked for last: streams in step ask for the same, one right after the other."""

    def difference(self, known: Mapping[str, Known], wanted: Mapping[str, Resource]) -> Difference:
        found = self._remember("difference", known, wanted, lambda: difference(known, wanted))
        assert isinstance(found, Difference)  # noqa: S101 - for the type checker
        return found

    def version(self, resources: Mapping[str, Known]) -> str:
        return str(self._remember("version", resources, None, lambda: version_of(resources)))

    def in_order(self, said: Mapping[str, Known | None]) -> tuple[Resource, ...]:
        """The resources of a response, by name."""

        def ordered() -> tuple[Resource, ...]:
            return tuple(item for _, item in sorted(said.items()) if isinstance(item, Resource))

        found = self._remember("in order", said, None, ordered, few=len(said) < FEW)
        assert isinstance(found, tuple)  # noqa: S101 - for the type checker
        return found

    def parts(self, said: Mapping[str, Known | None]) -> tuple[Mapping[str, Known | None], ...]:
        """A response as several that are not too large: as Envoy takes them, removals first, and then by name."""

        def split() -> tuple[Mapping[str, Known | None], ...]:
            if sum(_size(name, item) for name, item in said.items()) <= self._response_bytes:
                return (said,)
            found: list[dict[str, Known | None]] = [{}]
            left = self._response_bytes
            for name, item in sorted(said.items(), key=lambda pair: (pair[1] is not None, pair[0])):
                size = _size(name, item)
                if size > left and found[-1]:
                    found.append({})
                    left = self._response_bytes
                found[-1][name] = item
                left -= size
            return tuple(found)

        parts = self._remember("parts", said, None, split, few=len(said) < FEW)
        assert isinstance(parts, tuple)  # noqa: S101 - for the type checker
        return parts

    def used(self, content: Mapping[str, Known | None], before: Mapping[str, Known], type_url: str) -> frozenset[str]:
        """The names of a type that resources refer to which a response says and the client did not have."""

        def names() -> frozenset[str]:
            return frozenset(
                reference.name
                for name, item in content.items()
                if isinstance(item, Resource) and not ((held := before.get(name)) and held.version == item.version)
                for reference in item.references
                if reference.type_url == type_url
            )

        found = self._remember(("used", type_url), content, before, names, few=len(content) < FEW)
        assert isinstance(found, frozenset)  # noqa: S101 - for the type checker
        return found

    def needs(self, known: Mapping[str, Known], root: str, target: Snapshot) -> Mapping[str, frozenset[str]]:
        """By type, the names in a snapshot that resources of it refer to, of those that a client has of one type."""

        def names() -> Mapping[str, frozenset[str]]:
            there = target.of_type(root).resources
            found: dict[str, set[str]] = {}
            for reference in {each for name in known if name in there for each in there[name].references}:
                if reference.name in target.of_type(reference.type_url).resources:
                    found.setdefault(reference.type_url, set()).add(reference.name)
            return {type_url: frozenset(each) for type_url, each in found.items()}

        found = self._remember(("needs", root), known, target, names)
        assert isinstance(found, dict)  # noqa: S101 - for the type checker
        return found

    def led(
        self,
        how: Callable[[Mapping[str, Known], Mapping[str, Resource]], Mapping[str, Resource]],
        held: Mapping[str, Known],
        wanted: Mapping[str, Resource],
    ) -> Collection:
        """Route tables as `how` of `leading` makes them."""
        found = self._remember(how, held, wanted, lambda: Collection(ROUTES, how(held, wanted)))
        assert isinstance(found, Collection)  # noqa: S101 - for the type checker
        return found

    def overlaid(self, under: Collection, over: Collection) -> Collection:
        """All of both; `over` wins."""

        def both() -> Collection:
            return Collection(under.type_url, dict(sorted({**under.resources, **over.resources}.items())))

        found = self._remember("overlaid", under, over, both)
        assert isinstance(found, Collection)  # noqa: S101 - for the type checker
        return found

    def _remember(
        self, what: object, one: object, other: object, compute: Callable[[], object], *, few: bool = False
    ) -> object:
        """By identity: the operands are kept as well, so that their identities stay theirs."""
        last = self._last.get(what)
        if last is not None and last[1] is one and last[2] is other:
            return last[0]
        found = (compute(), one, other) if few else self._looked_up((what, id(one), id(other)), one, other, compute)
        self._last[what] = found
        return found[0]

    def _looked_up(
        self, key: tuple[object, ...], one: object, other: object, compute: Callable[[], object]
    ) -> tuple[object, ...]:
        found = self._memo.pop(key, None)
        if found is None:
            found = (compute(), one, other)
            self._names += _names(found)
            while self._memo and (len(self._memo) >= REMEMBERED or self._names > REMEMBERED_NAMES):
                self._names -= _names(self._memo.pop(next(iter(self._memo))))
                self._last.clear()
        self._memo[key] = found
        return found


@dataclass(slots=True, eq=False)
class Channel:
    """See the module."""

    type_url: str
    subscription: Subscription = field(default_factory=Subscription)
    asked: bool = False
    """Whether there was a request."""
    known: Mapping[str, Known] = field(default_factory=lambda: NOTHING)
    owed: set[str] = field(default_factory=set)
    """Names to be sent even if the client has them: it asked."""
    again: set[str] = field(default_factory=set)
    """Names to be sent even if the client has them: it warms up something new that uses them."""
    answer: bool = False
    """Whether to send something even if it is empty."""
    flights: dict[str, Flight] = field(default_factory=dict)
    refused: Mapping[str, str | None] = field(default_factory=dict)
    """Versions that the client refused, None being a removal: not to be sent again as they are."""
    strange: int = 0
    """Names that do not exist in answers since the client last owed none: each is made for this stream alone."""
    sequence: int = 0
    sent: str = ""
    acknowledged: str = ""
    error: str = ""
    """The client's words for its last refusal, until it has taken or given up what it refused."""
    _wanted: tuple[Collection, Subscription, Mapping[str, Resource]] | None = None
    _unreferenced: tuple[Snapshot, Subscription, frozenset[str]] | None = None

    @property
    def last_nonce(self) -> str:
        return str(self.sequence) if self.sequence else ""

    def wanted(self, collection: Collection) -> Mapping[str, Resource]:
        """What the client is to have in the end, of all that there is."""
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
        """The names in the subscription that no resource of a snapshot refers to: all of those that the snapshot has,
        and at most `MAX_UNREFERENCED` others."""
        cached = self._unreferenced
        if cached is not None and cached[0] is snapshot and cached[1] is self.subscription:
            return cached[2]
        found = self.subscription.names - snapshot.referenced.get(self.type_url, frozenset())
        if len(found) > MAX_UNREFERENCED:
            served = found & snapshot.of_type(self.type_url).resources.keys()
            found = served.union(sorted(found - served)[:MAX_UNREFERENCED])
        self._unreferenced = (snapshot, self.subscription, found)
        return found

    def subscribed(self, subscription: Subscription) -> None:
        """Ask for something else: what is not wanted any more is forgotten."""
        self.subscription = subscription
        if not subscription.wildcard:
            if not self.known.keys() <= subscription.names:
                self.known = {name: item for name, item in self.known.items() if name in subscription.names}
            self.owed &= subscription.names
            self.again &= subscription.names

    def send(self, flight: Flight, after: Mapping[str, Known]) -> str:
        """Note a response; its nonce."""
        self.sequence += 1
        self.known = after
        self.sent = flight.version
        nonce = str(self.sequence)
        self.flights[nonce] = flight
        return nonce

    @property
    def new(self) -> frozenset[str]:
        """Names that the client has had nothing of, and has not acknowledged yet."""
        return frozenset(
            name for flight in self.flights.values() for name in flight.content if name not in flight.before
        )

    @property
    def in_doubt(self) -> bool:
        """Whether the client has refused something, or has not said yet whether it takes what came instead."""
        return bool(self.refused) or bool(self.error and self.flights)

    def accept(self, nonce: str) -> Flight | None:
        """The client took a response; None if it is none that it owes an answer for."""
        flight = self._answered(nonce)
        if flight is None:
            return None
        self.acknowledged = flight.version
        if self.refused:
            # The client may have asked for what it refused, and takes it now.
            self.refused = {name: version for name, version in self.refused.items() if not flight.says(name, version)}
        if not self.refused:
            self.error = ""
        return flight

    def refuse(self, nonce: str, error: str) -> Flight | None:
        """The client has, of what the response said, what it had before."""
        flight = self._answered(nonce)
        if flight is None:
            return None
        known = dict(self.known)
        for name, item in flight.content.items():
            before = flight.before.get(name)
            if known.get(name) is item:  # of a removal, too: it is not there, and none is
                known.pop(name, None)
                if before is not None and self.subscription.covers(name):
                    known[name] = before
        self.known = dict(sorted(known.items()))
        for later, sent in self.flights.items():
            # It did not have this before those either.
            same = {name for name, item in flight.content.items() if sent.before.get(name) is item}
            had = {**sent.before, **{name: flight.before.get(name) for name in same}}
            self.flights[later] = sent._replace(before={name: item for name, item in had.items() if item})
        versions = flight.content if flight.whole is None else {**flight.content, **flight.whole}
        self.refused = {
            **(self.refused if flight.whole is None else {}),
            **{name: item.version if item else None for name, item in versions.items()},
        }
        self.error = error
        return flight

    def _answered(self, nonce: str) -> Flight | None:
        flight = self.flights.pop(nonce, None)
        if not self.flights:
            self.strange = 0
        return flight

    def mended(self, wanted: Mapping[str, Known], now: Mapping[str, Known]) -> bool:
        """Whether something that was refused would be something else now, so that all of it may be tried again.

        Nobody can tell which part of a response a client refused, nor which it took in spite of that: what was refused
        together is sent together again, changed or not, as soon as any of it has changed, or is not asked for any more.
        `now` still has what is to be removed from `wanted` later: a removal that was refused is none while that waits.
        """
        return any(
            not self.subscription.covers(name)
            or (item.version if (item := (wanted if version is None else now).get(name)) else None) != version
            for name, version in self.refused.items()
        )

    def try_again(self, *, whole: bool) -> None:
        """Owe what was refused, as it is now."""
        names = {name for name in self.refused if self.subscription.covers(name)}
        self.refused = {}
        self.owed |= names
        self.answer |= whole and bool(names)
        if not names:
            self.error = ""


def _names(operands: tuple[object, ...]) -> int:
    """How many names a result was made of."""
    return sum(len(each) for each in operands[1:] if isinstance(each, Mapping))


def _size(name: str, item: Known | None) -> int:
    """Bytes that it takes of a response, at most: an empty list stands for endpoints that are gone."""
    said = len(name.encode())
    body = len(item.body) + len(item.type_url) if isinstance(item, Resource) else len(ENDPOINTS) + said
    return ENVELOPE_BYTES + said + body
