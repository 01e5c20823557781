"""The conversation with one client: a request or a snapshot comes in, responses come out. No input, output or clock.

A transition from what a client has to a new snapshot runs in phases. First the client tries what is to be tried, if
there is such a thing. Then everything new is sent in the order clusters, endpoints, extensions, listeners, routes; each
step waits until what it builds on is acknowledged, and for new clusters until their endpoints are. Last, what nothing
uses any more is removed. One snapshot, the latest, waits meanwhile; endpoints alone do not wait. A step that the client
refuses ends the transition where it is: old and new are both there, and the next snapshot goes on from that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

from xds_server.bounds import check
from xds_server.channel import Channel, Flight, Shared
from xds_server.events import Accepted, Completed, Event, Refused, TypeStatus
from xds_server.ordering import STAGED, Gate, Phase, complete, in_order, let_go, trial, users_unknown
from xds_server.ordering import gate as gate_of
from xds_server.ordering import removing as may_remove
from xds_server.snapshot import Known, Resource, no_endpoints
from xds_server.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET, TRIAL
from xds_server.wire import Payload, ProtocolError, Request, Response, TooMuchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xds_server.snapshot import Collection, Difference, Snapshot

MAX_TYPES: Final = 32
MAX_ERROR: Final = 4096
"""Characters of a client's error that are kept."""


class _Now(NamedTuple):
    """How it stands with a type of which there may be something to say."""

    wanted: Mapping[str, Resource]
    step: Difference
    gate: Gate
    removing: bool


class Wait(NamedTuple):
    """It is the client's turn to ask."""

    snapshot: Snapshot
    type_url: str


class Stream(ABC):
    """What both variants of the protocol share; `sotw` and `delta` say what differs."""

    def __init__(self, snapshot: Snapshot, shared: Shared, *, empty_is_all: bool = True) -> None:
        """`empty_is_all`: whether an empty first request means everything (clients of gRPC never mean that)."""
        self._shared = shared
        self._empty_is_all = empty_is_all
        self._channels: dict[str, Channel] = {}
        """In the order in which they are served."""
        self._target = snapshot
        self._next: Snapshot | None = None
        self._phase = Phase.TRY
        self._returned = False
        """Whether the client has said what it has from an earlier stream."""
        self._claimed = 0
        """Of how many resources it has said so."""
        self._brought = False
        """Whether the client has said that it had anything, of any type, before this stream."""
        self._patient = True
        """Whether to wait for what the client is to ask for next, or not to ask for any more."""
        self._warming: dict[str, str] = {}
        """Endpoints that sent clusters need, and the nonce with which they were sent, if they were."""
        self._events: list[Event] = []
        self._completed: Snapshot | None = None

    # What comes in.

    def publish(self, snapshot: Snapshot) -> list[Response]:
        """A new snapshot: the latest one wins. Raises nothing."""
        self._next = snapshot
        return self._advance()

    def wait_no_longer(self) -> list[Response]:
        """Go on without endpoints that the client has not asked for, although it has clusters that need them; and take
        clusters away that are gone, although it still asks for them."""
        unsent = self._unsent_endpoints()
        for name in unsent:
            del self._warming[name]
        if not unsent:
            self._patient = False
        return self._advance()

    # What can be seen.

    @property
    def snapshot(self) -> Snapshot:
        """What the client is being led to."""
        return self._target

    @property
    def completed(self) -> Snapshot | None:
        """The last snapshot of which the client acknowledged everything that it can use."""
        return self._completed

    @property
    def changing(self) -> bool:
        """Whether the client may have something else than what it acknowledged last."""
        return self._completed is not (self._next or self._target)

    def channels(self) -> list[tuple[Channel, Mapping[str, Resource]]]:
        """What was asked for, with what the client is to have of it in the end."""
        latest = self._next or self._target
        return [(channel, channel.wanted(latest.of_type(channel.type_url))) for channel in self._channels.values()]

    def channel(self, type_url: str) -> Channel | None:
        """One of them, if it was asked for."""
        return self._channels.get(type_url)

    @property
    def waits_for(self) -> Wait | None:
        """What it is for the client to ask for, or not to ask for any more. Patience begins anew with each wait."""
        if self._warming and self._unsent_endpoints():
            return Wait(self._target, ENDPOINTS)
        if self._phase is Phase.TRY:
            return Wait(self._target, EXTENSION) if self._awaits_extensions() else None
        if self._phase is Phase.MAKE:
            return Wait(self._target, LISTENER) if self.idle and self._awaits_users() else None
        if self._patient and not let_go(self._channels, self._target):
            return Wait(self._target, CLUSTER)
        return None

    @property
    def fresh(self) -> bool:
        """Whether the client had nothing when the stream began: it has just been started. It has said so of listeners,
        and nothing else of any other type."""
        channel = self._channels.get(LISTENER)
        return channel is not None and channel.asked and not self._brought

    @property
    def idle(self) -> bool:
        """Whether the client owes no answer."""
        return not any(channel.flights for channel in self._channels.values())

    @property
    def refuses(self) -> bool:
        """Whether the client has refused something that it has not taken or given up since."""
        return any(channel.error for channel in self._channels.values())

    def take_events(self) -> list[Event]:
        """What has happened since the last call."""
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def status(self) -> tuple[TypeStatus, ...]:
        latest = self._next or self._target
        return tuple(
            TypeStatus(
                channel.type_url,
                latest.of_type(channel.type_url).version,
                channel.sent,
                channel.acknowledged,
                channel.error,
            )
            for channel in self._channels.values()
        )

    # What differs between the variants.

    @abstractmethod
    def _compose(
        self, channel: Channel, version: str, resources: tuple[Resource, ...], removed: tuple[str, ...]
    ) -> Payload | None:
        """The response, or None where there is nothing that could be said."""

    @abstractmethod
    def _whole(self, type_url: str) -> bool:
        """Whether each response has all resources of the type."""

    @abstractmethod
    def _one_at_a_time(self) -> bool:
        """Whether a response of a type waits until the client has answered the last one."""

    # Requests.

    def _channel(self, request: Request) -> Channel:
        if not request.type_url:
            raise ProtocolError("the request has no type URL")
        channel = self._channels.get(request.type_url)
        if channel is None:
            if len(self._channels) >= MAX_TYPES:
                raise TooMuchError(f"more than {MAX_TYPES} types on one stream")
            channel = Channel(request.type_url)
            self._channels = in_order({**self._channels, request.type_url: channel})
        return channel

    def _answered(self, channel: Channel, request: Request) -> None:
        """Take the request as the answer to the response that it names."""
        if request.error is None:
            taken = channel.accept(request.nonce)
            if taken is not None:
                self._events.append(Accepted(channel.type_url, taken.version))
        else:
            taken = channel.refuse(request.nonce, request.error[:MAX_ERROR])
            if taken is not None:
                self._events.append(
                    Refused(channel.type_url, taken.version, channel.error, self._target, channel.refused)
                )
        if taken is None:
            return
        if channel.type_url == ENDPOINTS:
            self._warming = {name: nonce for name, nonce in self._warming.items() if nonce != request.nonce}
        elif channel.type_url == CLUSTER and request.error is None:
            self._forget_endpoints(taken)
        elif channel.type_url == CLUSTER:
            self._warming = {}
        elif channel.type_url == LISTENER and request.error is not None and ROUTES in self._channels:
            self._channels[ROUTES].again.clear()

    def _forget_endpoints(self, taken: Flight) -> None:
        """The client has dropped clusters, and with them their endpoints: there is nothing left to say of those."""
        endpoints = self._channels.get(ENDPOINTS)
        if endpoints is None:
            return
        gone = set()
        for name, item in taken.content.items():
            if item is None:
                before = taken.before.get(name)
                gone.add(name)
                if isinstance(before, Resource):
                    gone.update(used.name for used in before.references if used.type_url == ENDPOINTS)
        gone -= self._target.of_type(ENDPOINTS).resources.keys()
        if not gone.isdisjoint(endpoints.known):
            endpoints.known = {name: item for name, item in endpoints.known.items() if name not in gone}

    def _resubscribed(self, channel: Channel, owed: Iterable[str]) -> None:
        """After a change of names: what has to be sent, whether the client has it or not."""
        channel.owed.update(owed)
        if channel.type_url == ENDPOINTS:
            channel.again.update(filter(channel.subscription.covers, self._unsent_endpoints()))
        check(self._channels.values(), asked=bool(channel.owed), claimed=self._claimed)

    # Responses.

    def _advance(self) -> list[Response]:
        out: list[Response] = []
        while True:
            if self._phase is Phase.TRY and not self._trying():
                self._phase, self._patient = Phase.MAKE, True
            for channel in self._channels.values():
                self._serve(channel, out)
            if not self._turn():
                return out

    def _turn(self) -> bool:
        """Go to the next phase or snapshot, if this one is through; whether there is more to serve."""
        if self._warming:
            return False
        if self._phase is Phase.TRY:
            channel = self._channels.get(EXTENSION)
            return channel is not None and TRIAL in channel.refused and self._next_target()
        stuck = False
        for channel in self._channels.values():
            if channel.flights and channel.type_url in STAGED:
                return False
            stuck = stuck or channel.in_doubt
        if not stuck and self._phase is Phase.MAKE and not self._awaits_users():
            self._phase = Phase.BREAK
            return True
        if not stuck and self._phase is not Phase.MAKE:
            self._phase = Phase.DONE
            if self._completed is not self._target and complete(self._channels, self._target, self._shared):
                self._completed = self._target
                self._events.append(Completed(self._target))
        return self._next_target()

    def _next_target(self) -> bool:
        if self._next is None:
            return False
        self._target, self._next, self._phase, self._patient = self._next, None, Phase.TRY, True
        return True

    def _trying(self) -> bool:
        """Whether nothing else may change yet."""
        channel = self._channels.get(EXTENSION)
        if self._awaits_extensions() or (
            channel is not None and any(TRIAL in flight.content for flight in channel.flights.values())
        ):
            return True
        return trial(self._channels, self._target) is not None

    def _awaits_extensions(self) -> bool:
        """Whether a client that was here before may be about to say which trial it has."""
        channel = self._channels.get(EXTENSION)
        there = TRIAL in self._target.of_type(EXTENSION).resources
        return self._returned and self._patient and there and (channel is None or not channel.asked)

    def _awaits_users(self) -> bool:
        """Whether a client that was here before may be about to say what it has that uses what is to go."""
        return self._returned and self._patient and users_unknown(self._channels, self._target)

    def _collection(self, type_url: str) -> Collection:
        collection = self._target.of_type(type_url)
        if self._next is not None and type_url in {ENDPOINTS, SECRET}:
            # Endpoints and certificates do not wait for the rest, unless they belong to clusters that change.
            newer = self._next.of_type(type_url)
            if newer is not collection and self._next.of_type(CLUSTER).version == self._target.of_type(CLUSTER).version:
                return self._shared.overlaid(collection, newer)
        return collection

    def _unsent_endpoints(self) -> list[str]:
        return [name for name, nonce in self._warming.items() if not nonce]

    def _serve(self, channel: Channel, out: list[Response]) -> None:
        if self._one_at_a_time() and channel.flights:
            return
        collection = self._collection(channel.type_url)
        wanted = channel.wanted(collection)
        if channel.known is wanted and not (channel.owed or channel.again or channel.answer or channel.refused):
            return
        removing = may_remove(channel.type_url, self._channels, self._target, self._phase, patient=self._patient)
        gate = gate_of(channel.type_url, self._channels, warming=bool(self._warming))
        if self._phase is Phase.TRY and gate is Gate.OPEN and channel.type_url in STAGED:
            gate = Gate.HELD
        step = self._shared.difference(channel.known, wanted)
        may_change = gate is Gate.OPEN or (self._phase is Phase.TRY and channel.type_url == EXTENSION)
        if channel.refused and may_change and channel.mended(wanted, wanted if removing else step.kept):
            channel.try_again(whole=self._whole(channel.type_url))
        if self._phase is Phase.TRY and channel.type_url == EXTENSION:
            self._serve_trial(channel, out)
        serve = self._serve_whole if self._whole(channel.type_url) else self._serve_each
        serve(channel, _Now(wanted, step, gate, removing), out)

    def _serve_trial(self, channel: Channel, out: list[Response]) -> None:
        """By itself, since what is refused together cannot be told apart."""
        found = trial(self._channels, self._target)
        if found is None or channel.flights or TRIAL in channel.refused:
            return
        channel.owed.discard(TRIAL)
        self._send(channel, {TRIAL: found}, None, dict(sorted({**channel.known, TRIAL: found}.items())), out)

    def _serve_whole(self, channel: Channel, now: _Now, out: list[Response]) -> None:
        """All or nothing: the response has everything that the client is to have, changed or not."""
        wanted, step, gate, removing = now
        after = wanted if removing else step.kept
        named = any(name in after for name in channel.owed)
        asked = named or channel.answer
        changes = bool(step.changed) or (removing and bool(step.removed))
        if gate is Gate.SHUT or (gate is Gate.HELD and not named):
            return  # to say that there is nothing would take away what the client has from before
        if channel.refused and not asked:
            return
        if asked or changes:
            content: Mapping[str, Known | None] = step.changed
            if gate is Gate.HELD or channel.refused:
                after = _as_it_is(channel, after, held=gate is Gate.HELD)
                content = {name: item for name, item in after.items() if channel.known.get(name) is not item}
            elif removing and step.removed:
                content = {**content, **dict.fromkeys(step.removed)}
            self._send(channel, content, after, after, out)
        channel.owed.clear()
        channel.answer = channel.answer and gate is Gate.HELD

    def _serve_each(self, channel: Channel, now: _Now, out: list[Response]) -> None:
        """Each resource for itself: what is owed, and what has changed."""
        wanted, step, gate, removing = now
        content: Mapping[str, Known | None] = self._owed(channel, now)
        after: Mapping[str, Known] | None = None
        if gate is Gate.OPEN and not channel.flights:
            if channel.refused or (removing and step.removed):
                gone = step.removed if removing else ()
                content = {
                    **content,
                    **{name: item for name, item in step.changed.items() if name not in channel.refused},
                    **{name: None for name in gone if name not in channel.refused},
                }
                after = None if channel.refused else wanted
            else:
                # What most streams do most of the time, and then all with the same mappings.
                content = {**content, **step.changed} if content else step.changed
                after = step.kept
        answered = channel.answer and gate is not Gate.SHUT
        if not content and not answered:
            return
        if after is None:
            merged = {**channel.known, **content}
            after = dict(sorted((name, item) for name, item in merged.items() if item is not None))
        self._send(channel, content, None, after, out)
        channel.answer = channel.answer and not answered

    def _owed(self, channel: Channel, now: _Now) -> dict[str, Known | None]:
        """What was asked for, or is needed again. While changes are held back, a client gets what it has."""
        wanted, _, gate, removing = now
        content: dict[str, Known | None] = {}
        if gate is Gate.SHUT:
            return content
        for name in sorted(channel.owed | channel.again if gate is Gate.OPEN else channel.owed):
            held, new = channel.known.get(name), wanted.get(name)
            stays = held is not None and (gate is Gate.HELD or (new is None and not removing))
            if not stays:
                content[name] = new
                channel.strange += new is None
            elif isinstance(held, Resource):
                content[name] = held
        channel.owed.clear()
        if gate is Gate.OPEN:
            channel.again.clear()
        return content

    def _send(
        self,
        channel: Channel,
        content: Mapping[str, Known | None],
        whole: Mapping[str, Known] | None,
        after: Mapping[str, Known],
        out: list[Response],
    ) -> None:
        """One response, or several where each resource stands for itself and one would be too large."""
        parts = (content,) if whole is not None or self._one_at_a_time() else self._shared.parts(content)
        for part in parts[:-1]:
            merged = {**channel.known, **part}
            had = dict(sorted((name, item) for name, item in merged.items() if item is not None))
            self._send_part(channel, part, None, had, out)
        self._send_part(channel, parts[-1], whole, after, out)

    def _send_part(
        self,
        channel: Channel,
        content: Mapping[str, Known | None],
        whole: Mapping[str, Known] | None,
        after: Mapping[str, Known],
        out: list[Response],
    ) -> None:
        version = self._collection(channel.type_url).version if whole is None else self._shared.version(whole)
        said = content if whole is None else whole
        if channel.type_url == ENDPOINTS and None in said.values():
            # Nobody is what a client is told, and nothing that it has.
            said = {name: no_endpoints(name) if item is None else item for name, item in said.items()}
        resources = self._shared.in_order(said)
        removed = tuple(sorted(name for name, item in said.items() if item is None))
        payload = self._compose(channel, version, resources, removed)
        if payload is None:
            channel.known = after
            if not channel.refused:
                channel.error = ""  # what was refused is gone, and no acknowledgement will come for that
            return
        before = channel.known
        nonce = channel.send(Flight(version, content, whole, before), after)
        out.append(Response(channel.type_url, nonce, payload))
        self._warm(channel, content, before, nonce)

    def _warm(
        self, channel: Channel, content: Mapping[str, Known | None], before: Mapping[str, Known], nonce: str
    ) -> None:
        """New clusters wait for endpoints and new listeners for routes, even if the client has those already."""
        if channel.type_url == ENDPOINTS:
            self._warming.update((name, nonce) for name in self._warming if name in content)
            return
        used_type = {CLUSTER: ENDPOINTS, LISTENER: ROUTES}.get(channel.type_url)
        if used_type is None:
            return
        used = self._channels.get(used_type)
        for name in self._shared.used(content, before, used_type):
            if used_type == ENDPOINTS:
                self._warming[name] = ""
            if used is not None and used.subscription.covers(name):
                used.again.add(name)


def _as_it_is(channel: Channel, after: Mapping[str, Known], *, held: bool) -> Mapping[str, Known]:
    """What a whole response says while changes are held back or something was refused: what the client has, and what
    it asks for and has not."""
    names = after if channel.answer and not held else channel.owed
    asked = {
        name: after[name] for name in names if name in after and (name in channel.owed or name not in channel.refused)
    }
    return dict(sorted(({**asked, **channel.known} if held else {**channel.known, **asked}).items()))
