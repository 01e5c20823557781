"""The answer that a client must receive, and the requests that servers must receive: policies as layers around a call,
in declared order.

    judge.outcomes(world, request) -> every outcome that is right, each with the world after it

The first policy is outermost. There are no sides here: that is the point. Whatever a compiler does with a program, its
application has to behave like this. Chance gives several outcomes with their probabilities, time gives bounds.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Protocol, Side
from tests.fidelity.choices import Choices, Flip, every_way
from tests.fidelity.message import Answer, Fields, Message, Sent, Sighting
from tests.fidelity.selecting import holds, policies_of, port_of
from tests.fidelity.state import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dsl.program import Policy, Port, Program

    Inner = Callable[[Message], Answer]
    Handler = Callable[["Run", Policy, "Place", Message, Inner], Answer]
    Meets = Callable[[Program, str, str, Port], tuple[Policy, ...]]


FAILED: Final = "x-admc-failed"
"""The header by which an ADM says that its service failed: docs/invisible.md."""


NOT_ALLOWED = 405
"""How an ADM answers every CONNECT."""


class Behaviour(NamedTuple):
    """How a service answers one request."""

    status: int | None
    delay: float = 0.0
    headers: Fields = ()
    size: int = 0
    failure: str = ""
    """See `Answer`."""
    illegal: bool = False
    """Of a failure: an answer that is no HTTP."""


class Place(NamedTuple):
    """The call that a policy applies to."""

    source: str
    destination: str
    port: Port

    @property
    def grpc(self) -> bool:
        return self.port.protocol is Protocol.GRPC


class Deadline:
    """The time at which a caller or an ADM stops waiting."""

    def __init__(self, at: float) -> None:
        self.at = at


class GaveUpError(Exception):
    """The caller or the ADM that waited for the current step has stopped."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline


@dataclass(frozen=True, slots=True)
class Outcome:
    """One right outcome. `late` is how much later than `seconds` it may be because of policies."""

    answer: Answer
    sightings: tuple[Sighting, ...]
    counted: Mapping[str, int]
    """Requests that each counting policy has met."""
    seconds: float
    late: float
    flips: tuple[Flip, ...]
    world: World

    @property
    def chance(self) -> float:
        """The probability, where it is known of every flip."""
        product = 1.0
        for flip in self.flips:
            if flip.chance is not None:
                product *= flip.chance if flip.yes else 1 - flip.chance
        return product


@dataclass
class Run:
    """One request with one combination of random decisions. `now` is the clock that delays move."""

    program: Program
    handlers: Mapping[str, Handler]
    serve: Callable[[Sighting, int], Behaviour]
    meets: Meets
    world: World
    choices: Choices
    now: float
    late: float = 0.0
    sightings: list[Sighting] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    beside: int = 0
    """How many other requests were sent at the same time."""
    answered: float = 0.0
    """The time of the observed answer."""
    chosen: dict[str, bool] = field(default_factory=dict)
    """What was chosen once for the whole request, by policy."""
    _deadlines: list[Deadline] = field(default_factory=list)

    @property
    def latest(self) -> float:
        """The last instant at which the event that `now` stands for can have happened."""
        return max(self.now, self.answered)

    def wait(self, seconds: float) -> None:
        """Let time pass, or raise `GaveUpError` at the first deadline before."""
        soonest = min(self._deadlines, key=lambda each: each.at, default=None)
        if soonest is not None and self.now + seconds > soonest.at:
            self.now = soonest.at
            raise GaveUpError(soonest)
        self.now += seconds

    @contextmanager
    def until(self, seconds: float) -> Iterator[Deadline]:
        deadline = Deadline(self.now + seconds)
        self._deadlines.append(deadline)
        try:
            yield deadline
        finally:
            self._deadlines.remove(deadline)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The block takes none of the caller's time, and no deadline ends it."""
        now, late, deadlines = self.now, self.late, self._deadlines
        self._deadlines = []
        try:
            yield
        finally:
            self.now, self.late, self._deadlines = now, late, deadlines

    def call(self, source: str, destination: str, port: Port, message: Message) -> Answer:
        """A call with all its policies."""
        place = Place(source, destination, port)
        policies = self.meets(self.program, source, destination, port)
        answer = self._through(policies, place, message)
        # Every ADM takes the mark of a failure out of a service's answer.
        return answer.without(FAILED) if policies and answer.by is not None else answer

    def _through(self, policies: tuple[Policy, ...], place: Place, message: Message) -> Answer:
        if not policies:
            # Behind the policies of the first ADM; no case has a CONNECT and policies at two ADMs.
            met = self.meets(self.program, place.source, place.destination, place.port)
            return Answer(NOT_ALLOWED) if message.method == "CONNECT" and met else self.arrive(place, message)
        policy, inner = policies[0], policies[1:]
        if not holds(policy.match, message):
            return self._through(inner, place, message)
        handler = self.handlers[policy.kind.name]
        answer = handler(self, policy, place, message, lambda changed: self._through(inner, place, changed))
        if answer.failure and Side.INGRESS not in policy.kind.sides:
            return replace(answer, at_sender=True)
        return answer

    def arrive(self, place: Place, message: Message) -> Answer:
        """The service itself, inside all layers."""
        seen = Sighting(
            place.destination, place.port.number, message.method, message.path, message.headers, len(message.body)
        )
        name = ",".join(message.values("x-echo-id"))
        key = (place.destination, name)
        self.world.arrivals[key] = self.world.arrivals.get(key, 0) + 1
        behaviour = self.serve(seen, self.world.arrivals[key])
        if behaviour.failure != "connect":
            self.sightings.append(seen)
        self.wait(behaviour.delay)
        if behaviour.failure:
            status = 14 if place.grpc else 502 if behaviour.illegal else 503
            return Answer(status, failure=behaviour.failure)
        status = behaviour.status
        if status is None:
            status = 0 if place.grpc else 200
        committed = place.grpc and bool(behaviour.headers)
        return Answer(status, behaviour.headers, place.destination, committed=committed, size=behaviour.size)


@dataclass(frozen=True)
class Judge:
    program: Program
    serve: Callable[[Sighting, int], Behaviour]
    """The answer of a service to the n-th arrival of a request."""
    handlers: Mapping[str, Handler]
    """What each kind does; `tests.fidelity.kinds.HANDLERS` for those of the prelude."""
    meets: Meets = policies_of
    """The policies on a call, in declared order."""

    def outcomes(self, world: World, sent: Sent, beside: int = 0) -> tuple[Outcome, ...]:
        """All right outcomes of a request that is sent at the same time as `beside` others."""
        return tuple(every_way(lambda choices: self._once(world.copied(), sent, beside, choices)))

    def _once(self, world: World, sent: Sent, beside: int, choices: Choices) -> Outcome:
        run = Run(
            *(self.program, self.handlers, self.serve, self.meets, world, choices, sent.at),
            beside=beside,
            answered=sent.answered,
        )
        message = Message(sent.method, sent.path, sent.headers, sent.body)
        port = port_of(self.program, sent.destination, sent.port)
        with run.until(sent.patience) as deadline:
            try:
                answer = run.call(sent.source, sent.destination, port, message)
            except GaveUpError as gave_up:
                if gave_up.deadline is not deadline:
                    raise
                answer = Answer(None)
        return Outcome(
            answer, tuple(run.sightings), dict(run.counted), run.now - sent.at, run.late, tuple(choices.flips), world
        )
