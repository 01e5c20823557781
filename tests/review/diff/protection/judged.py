"""What the judge of `tests/fidelity` lets through in HEAD that it refuses or counts in BASE.

The judge reads the documents alone and shares no code with the compiler or with the comparison of plans. A request
comes from a pod or an address, and goes to a process: names are what each program makes of them (`parties.py`).
NetworkPolicies are no part of that judge: `closings.py` says which callers they let pass.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Place, Protocol
from tests.fidelity.judge import Behaviour, GaveUpError, Judge
from tests.fidelity.judge import Place as Call
from tests.fidelity.kinds import number, refusal, seconds
from tests.fidelity.message import Sent
from tests.fidelity.own_kinds import ALL
from tests.fidelity.samples import ORIGIN, TOKEN
from tests.fidelity.selecting import policies_of, port_of, target
from tests.fidelity.state import World
from tests.review.diff.protection.closings import Closings
from tests.review.diff.protection.parties import Known, Way, callers, followers, is_there, known, process, ways

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dsl.program import Policy, Port, Program
    from tests.fidelity.judge import Handler, Inner, Outcome, Run
    from tests.fidelity.message import Answer, Fields, Message, Sighting
    from tests.review.diff.protection.parties import Process
    from tests.review.diff.protection.plans import Compiled

TIMES: Final = 4
"""How often each request is sent where there are quotas: more often than any of these admits at once."""
ASKS: Final[tuple[tuple[str, str, Fields, bytes], ...]] = (
    *(("GET", path, (), b"") for path in ("/old/a", "/new/a", "/a")),
    ("GET", "/new/a", (("x-in", "client"),), b""),
    ("GET", "/old/a", (("x-in", "set"),), b""),
    ("POST", "/old/a", (("x-in", "client"), TOKEN), b"b" * 100),
    ("GET", "/new/a", (TOKEN,), b""),
    ("OPTIONS", "/a", (("origin", ORIGIN), ("access-control-request-method", "POST")), b""),
)
COUNTING: Final = frozenset(("request_count", "access_log", "tap", "mirror"))


class Breach(NamedTuple):
    """A request that HEAD treats less strictly. `sent` has the names of HEAD."""

    sent: Sent
    text: str


class Treated(NamedTuple):
    """What becomes of one request, sent several times."""

    through: int
    """How many of them reach a service at most."""
    counted: Mapping[str, int]
    """Of the first, if it may reach a service: how often each counting policy counts it at least."""


@dataclass(frozen=True)
class Side:
    """One program with the destinations that its placement closes, and the processes that BASE's policies mean."""

    compiled: Compiled
    meant: frozenset[Process]
    """What the policies of BASE call: a process of another place answers in another way."""
    _known: dict[object, Treated] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.compiled.program

    @cached_property
    def calls(self) -> frozenset[tuple[str, str, int]]:
        return frozenset((call.source, call.destination, call.port.number) for call in self.program.calls)

    @cached_property
    def _closings(self) -> Closings:
        return Closings(self.compiled)

    @cached_property
    def _judge(self) -> Judge:
        own: dict[str, Handler] = {
            "external_authorization": self._asks,
            "asks": self._asks,
            "mirror": self._copies,
            "odd": _goes_round,
        }
        return Judge(self.program, self._serve, {**ALL, **own}, self._policies)

    def declares(self, source: str, way: Way) -> bool:
        return (source, way.party, way.port.number) in self.calls

    def treats(self, caller: Known, sent: Sent, times: int, pause: float, *, declared: bool) -> Treated:
        if declared:
            return self._remembered(sent, times, pause, None)
        port = port_of(self.program, sent.destination, sent.port)
        admits = self._closings.admits(caller.names, sent.source, sent.destination, port)
        if not admits and not caller.on_a_node:
            return Treated(0, {})
        passed_by = self._closings.passed_by(sent.source, sent.destination, port, on_a_node=caller.on_a_node)
        return self._remembered(sent, times, pause, passed_by)

    def _remembered(self, sent: Sent, times: int, pause: float, passed_by: frozenset[str] | None) -> Treated:
        key = (sent, times, pause, passed_by)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._treats(sent, times, pause, passed_by)
        return found

    def _treats(self, sent: Sent, times: int, pause: float, passed_by: frozenset[str] | None) -> Treated:
        """`passed_by`: of an undeclared call the policies that it does not meet; None of a declared one."""
        judge = self._judge
        port = port_of(self.program, sent.destination, sent.port)
        if passed_by is None:
            met = _met(self.calls, self.calls, self.program, sent.source, sent.destination, port)
        else:
            calls = self.calls - {sent[:3]}
            met = tuple(
                policy
                for policy in _met(calls, self.calls, self.program, sent.source, sent.destination, port)
                if policy.name not in passed_by
            )

            def meets(program: Program, source: str, destination: str, port: Port) -> tuple[Policy, ...]:
                if (source, destination, port.number) == sent[:3]:
                    return met
                return _met(calls, self.calls, program, source, destination, port)

            judge = replace(judge, meets=meets)
        if not met:
            return Treated(times, {})
        worlds, through, counted = [World()], 0, None
        for index in range(times):
            at = index * pause
            outcomes = [each for world in worlds for each in judge.outcomes(world, sent._replace(at=at, answered=at))]
            passed = [each for each in outcomes if each.answer.by is not None]
            if counted is None:
                counted = _least(self.program, passed)
            through += bool(passed)
            worlds = [each.world for each in (passed or outcomes)[:2]]
        return Treated(through, counted or {})

    def _policies(self, program: Program, source: str, destination: str, port: Port) -> tuple[Policy, ...]:
        return _met(self.calls, self.calls, program, source, destination, port)

    def _is_meant(self, name: str, port: Port) -> bool:
        return not self.meant or process(self.program, name, port) in self.meant

    def _serve(self, seen: Sighting, _count: int) -> Behaviour:
        """Every service answers at once. What BASE asks refuses some requests; what stands in its place does not."""
        party = self.program.services.get(seen.service) or self.program.externals[seen.service]
        port = next(port for port in party.ports if port.number == seen.port)
        asked = process(self.program, seen.service, port) in self._asked
        refuses = asked and (("x-in", "client") in seen.headers or seen.path.startswith("/old"))
        return Behaviour(403 if refuses and self._is_meant(seen.service, port) else None)

    @cached_property
    def _asked(self) -> frozenset[Process]:
        """What policies ask, in this program and in BASE."""
        return self.meant | _called(self.program, ("external_authorization", "asks"))

    def _asks(self, run: Run, policy: Policy, place: Call, message: Message, inner: Inner) -> Answer:
        """The ADM that enforces the policy asks. What it sends meets the policies at the other service (docs/rules.md,
        R4); to an external, there is no such policy."""
        helper, port = target(run.program, policy.arguments[_service_parameter(policy)])
        decision = next(
            each
            for each in self.compiled.placement.decisions
            if (each.policy, each.destination) == (policy.name, place.destination)
        )
        asker = place.source if Place.EGRESS in decision.place.ends else place.destination
        asked = replace(message, body=b"")
        said: Answer | None = None
        with run.until(seconds(policy, "timeout") if "timeout" in policy.arguments else 0.2) as deadline:
            try:
                if helper in run.program.externals:
                    said = run.arrive(Call(asker, helper, port), asked)
                else:
                    said = run.call(asker, helper, port, asked)
            except GaveUpError as gave_up:
                if gave_up.deadline is not deadline:
                    raise
        if said is not None and port.protocol is Protocol.GRPC:
            # A service's refusal is a message; every other status is an error of the call.
            said = replace(said, status=200 if said.status == 0 else said.status if said.by else None)
        if said is None or said.status is None or said.status >= 500:
            return inner(message) if policy.arguments.get("fail_open") else refusal(place, 403)
        return inner(message) if said.status == 200 else refusal(place, said.status)

    def _copies(self, run: Run, policy: Policy, place: Call, message: Message, inner: Inner) -> Answer:
        """A copy counts if it arrives where BASE sends it."""
        if not run.choices.flip(f"{policy.name} copies", number(policy, "percent") / 100):
            return inner(message)
        began = run.now
        answer = inner(message)
        to, port = target(run.program, policy.arguments["to"])
        with run.aside():
            run.now = began
            copied = run.call(place.source, to, port, message)
        run.counted[policy.name] += copied.by is not None and self._is_meant(to, port)
        return answer


def breaches(base: Compiled, head: Compiled, renamed: Mapping[str, str]) -> Iterator[Breach]:
    """Requests that BASE refuses or counts, and that HEAD lets through or does not count."""
    meant = _called(base.program, ())
    one, other = Side(base, meant), Side(head, meant)
    quotas = any(policy.kind.state for side in (one, other) for policy in side.program.policies)
    waves = ((TIMES, 0.001), (TIMES, 70.0)) if quotas else ((1, 0.0),)
    for before, after, known_before, known_after in _requests(one, other):
        # What a call met by its declaration alone is gone with it. What it met anyway, it still has to meet.
        declared = any(other.declares(name, after) for name in (*known_after.names, *known_before.names))
        for method, path, headers, body in ASKS:
            for times, pause in waves:
                was = _treated(
                    one, before, known_before, (method, path, headers, body), times, pause, declared=declared
                )
                if was.through == times and not was.counted:
                    continue  # it cannot get weaker
                now = _treated(other, after, known_after, (method, path, headers, body), times, pause, declared=True)
                sent = Sent(known_after.names[0], after.party, after.port.number, method, path, headers, body)
                if now.through > was.through:
                    yield Breach(sent, f"{was.through} of {times} were let through, now {now.through}")
                elif now.through:
                    for name, count in was.counted.items():
                        counted = now.counted.get(renamed.get(name, name), 0)
                        if counted < count:
                            yield Breach(sent, f"`{name}` counted it {count} times, now {counted}")


def _treated(
    side: Side,
    way: Way,
    caller: Known,
    ask: tuple[str, str, Fields, bytes],
    times: int,
    pause: float,
    *,
    declared: bool,
) -> Treated:
    """The mildest treatment under any of the names that a caller may be taken for."""
    found = [
        side.treats(
            caller,
            Sent(name, way.party, way.port.number, *ask),
            times,
            pause,
            # Clients outside send their requests whatever a program declares.
            declared=(declared or name in side.program.externals) and side.declares(name, way),
        )
        for name in caller.names
    ]
    through = max(each.through for each in found)
    counts = [each.counted for each in found if each.through]
    names_of = {name for each in counts for name in each}
    return Treated(through, {name: min(each.get(name, 0) for each in counts) for name in names_of})


def _requests(one: Side, other: Side) -> Iterator[tuple[Way, Way, Known, Known]]:
    """Ways of both sides that a request takes, and what both know of its caller."""
    base, head = one.program, other.program
    who = dict.fromkeys(
        (known(base, caller), known(head, caller)) for caller in callers(base, head) if is_there(base, head, caller)
    )
    for before in ways(base):
        for after in followers(base, head, before):
            for known_before, known_after in who:
                if after.party in known_after.names or before.party in known_before.names:
                    continue
                if after.party in head.externals and not any(name in head.services for name in known_after.names):
                    continue  # outside parties do not call each other through the mesh
                yield before, after, known_before, known_after


def _goes_round(run: Run, policy: Policy, place: Call, message: Message, inner: Inner) -> Answer:
    """A script can send a request to the service itself, past all that stands behind it."""
    return run.arrive(place, message)


def _met(
    calls: frozenset[tuple[str, str, int]],
    declared: frozenset[tuple[str, str, int]],
    program: Program,
    source: str,
    destination: str,
    port: Port,
) -> tuple[Policy, ...]:
    """Undeclared calls meet guards and policies for every caller, and at an external nothing (docs/language.md).

    `calls` are those that are looked at as declared ones. One that the program declares meets at an external, without
    its declaration, what is said of every caller: only the declaration made that enforceable.
    """
    found = policies_of(program, source, destination, port)
    call = (source, destination, port.number)
    if call in calls:
        return found
    if destination in program.externals and call not in declared:
        return ()
    return tuple(policy for policy in found if policy.kind.guard or policy.open_sources)


def _called(program: Program, kinds: tuple[str, ...]) -> frozenset[Process]:
    """What the policies of some kinds, or of all, make ADMs call."""
    return frozenset(
        process(program, *target(program, policy.arguments[parameter.name]))
        for policy in program.policies
        if not kinds or policy.kind.name in kinds
        for parameter in policy.kind.parameters
        if parameter.type.name == "service"
    )


def _service_parameter(policy: Policy) -> str:
    return next(parameter.name for parameter in policy.kind.parameters if parameter.type.name == "service")


def _least(program: Program, outcomes: Sequence[Outcome]) -> dict[str, int]:
    counting = [policy.name for policy in program.policies if policy.kind.name in COUNTING]
    totals = [Counter(outcome.counted) for outcome in outcomes]
    return {name: min(total[name] for total in totals) for name in counting} if totals else {}
