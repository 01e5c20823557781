"""What a client is sent of one type, given where its transition is: what is owed, what has changed, what may go.

Listeners and clusters in state of the world are sent whole, all else resource by resource. While changes are held back,
or something was refused, who asks is told what it has, and what it asks for and has not, unless that leads to clusters
that it has not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from xds_server.protocol.cluster_handover import Lead, ahead, behind
from xds_server.protocol.sequencing import STAGED, Gate, Phase, trial
from xds_server.protocol.sequencing import gate as gate_of
from xds_server.protocol.sequencing import removing as may_remove
from xds_server.protocol.type_state import NOTHING, Flight
from xds_server.protocol.wire import Response
from xds_server.resources.snapshot import Known, Resource, no_endpoints, nothing
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET, TRIAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import Channel, Shared
    from xds_server.protocol.wire import Payload
    from xds_server.resources.earlier_streams import Past
    from xds_server.resources.snapshot import Collection, Difference, Snapshot


class _Now(NamedTuple):
    """How it stands with a type of which there may be something to say."""

    wanted: Mapping[str, Resource]
    step: Difference
    gate: Gate
    removing: bool


class Sender(ABC):
    """A stream as far as it sends; `stream` says when, and what follows from answers."""

    def __init__(self, snapshot: Snapshot, shared: Shared, past: Past) -> None:
        self._shared = shared
        self._past = past
        self._channels: dict[str, Channel] = {}
        """In the order in which they are served."""
        self._target = snapshot
        self._next: Snapshot | None = None
        self._phase = Phase.TRY
        self._patient = True
        """Whether to wait for what the client is to ask for next, or not to ask for any more."""
        self._warming: dict[str, str] = {}
        """Endpoints that sent clusters need, and the nonce with which they were sent, if they were."""
        self._lead: Lead | None = None
        """How far the client is led to other clusters, if it is."""
        self._had: Mapping[str, Known] = NOTHING
        """The route tables of before."""
        self._led = nothing(ROUTES)
        """What some route tables are for now, instead of what they are to be in the end."""

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

    # What goes out.

    def _collection(self, type_url: str) -> Collection:
        collection = self._target.of_type(type_url)
        if self._next is not None and type_url in {ENDPOINTS, SECRET}:
            # Endpoints and certificates do not wait for the rest, unless they belong to clusters that change.
            newer = self._next.of_type(type_url)
            if newer is not collection and self._next.of_type(CLUSTER).version == self._target.of_type(CLUSTER).version:
                return self._shared.overlaid(collection, newer)
        if self._lead is not None and type_url == ROUTES and self._led.resources:
            return self._shared.overlaid(collection, self._led)
        return collection

    def _begin_to_lead(self, channel: Channel) -> None:
        """If routes are about to lead a client of gRPC to other clusters, name these first."""
        wanted = channel.wanted(self._target.of_type(ROUTES))
        if channel.refused and not channel.mended(wanted, wanted):
            return
        self._had = channel.known
        self._lead = Lead.AHEAD
        self._led = self._shared.led(ahead, self._had, wanted)
        if not self._led.resources:
            self._lead_on(channel)

    def _lead_on(self, channel: Channel) -> None:
        """The client knows the clusters of this step."""
        if self._lead is Lead.AHEAD:
            self._lead = Lead.BEHIND
            self._led = self._shared.led(behind, self._had, channel.wanted(self._target.of_type(ROUTES)))
            if self._led.resources:
                return
        self._lead_no_more()

    def _lead_no_more(self) -> None:
        self._lead, self._led, self._had = None, nothing(ROUTES), NOTHING

    def _serve(self, channel: Channel, out: list[Response]) -> None:
        if self._one_at_a_time() and channel.flights:
            return
        if self._lead is not None and channel.type_url == ROUTES and self._lead is Lead.TO_COME:
            self._begin_to_lead(channel)
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
        waiting: set[str] = set()
        for name in sorted(channel.owed | channel.again if gate is Gate.OPEN else channel.owed):
            held, new = channel.known.get(name), wanted.get(name)
            if gate is Gate.HELD and held is None and new is not None and not self._leads_somewhere(new):
                waiting.add(name)
                continue
            stays = held is not None and (gate is Gate.HELD or (new is None and not removing))
            if not stays:
                content[name] = new
                channel.strange += new is None
            elif isinstance(held, Resource):
                content[name] = held
        channel.owed = waiting
        if gate is Gate.OPEN:
            channel.again.clear()
        return content

    def _leads_somewhere(self, resource: Resource) -> bool:
        """Whether the client has the clusters that it uses, or does not ask for clusters."""
        clusters = self._channels.get(CLUSTER)
        return clusters is None or all(
            reference.name in clusters.known for reference in resource.references if reference.type_url == CLUSTER
        )

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
            # An empty list is what a client is told, and nothing that it has. No list may have an empty name.
            said = {name: no_endpoints(name) if item is None and name else item for name, item in said.items()}
        resources = self._shared.in_order(said)
        removed = tuple(sorted(name for name, item in said.items() if item is None))
        payload = self._compose(channel, version, resources, removed)
        if whole is not None and channel.type_url == CLUSTER:
            self._past.hold(version, whole)
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
