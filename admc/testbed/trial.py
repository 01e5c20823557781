"""Everything that a placement promises, tried on a running application.

    program, placement, bed -> rows of (call or decision, finding)

The program determines the requests: one along every declared call, one probe for every policy and call, one for every
quota and destination, and one from an undeclared caller for every guard at ingress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.testbed.facts import callers, denies, is_quota, is_split
from admc.testbed.findings import (
    STRANGER,
    Bed,
    ProbeFinding,
    ProbeOutcome,
    TimeUpError,
    described,
    judged,
    rejected,
    reply_label,
    request_for,
    unobservable,
)
from admc.testbed.matching import meeting, policies_on
from admc.testbed.probes import probe_of, why_not_observable
from admc.testbed.probes.limits import quota
from dsl.program import Place, Protocol, Side
from dsl.selecting import holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from admc.testbed.client import Reply, Request
    from dsl.program import Call, Policy, Program
    from solver.placement import Decision, Placement

LATE_TRIES = 5
"""The most times that a probe is tried."""
IN_NETWORK = unobservable(
    "no ADM enforces it: only a NetworkPolicy would, and no NetworkPolicy is enforced on this machine"
)
NOT_TRIED = ProbeFinding(ProbeOutcome.NOT_TRIED, "the time was over")


class CallRow(NamedTuple):
    """A plain request along one declared call. `adms` are the services whose ADMs the request passes."""

    call: Call
    adms: tuple[str, ...]
    finding: ProbeFinding


class PolicyRow(NamedTuple):
    """One policy at one destination, from one source or from all sources that share a bucket. In the network, where no
    ADM enforces the policy, `side` and `adm` are None, and the row is about all declared callers."""

    policy: str
    kind: str
    sources: tuple[str, ...]
    destination: str
    port: int
    side: Side | None
    adm: str | None
    finding: ProbeFinding


def calls(bed: Bed, placement: Placement) -> Iterator[CallRow]:
    """Send one request along every declared call (http: one in HTTP/1.1 and one in HTTP/2). It must be rejected if a
    guard of the program denies the call, and answered otherwise. Raises `EnvoyError`."""
    for index, call in enumerate(bed.program.calls):
        finding = _tried(bed, lambda call=call, index=index: _call(bed, call, _in_network(placement, index)))  # type: ignore[misc]
        yield CallRow(call, _adms(placement, index, call), finding)


def _tried(bed: Bed, probe: Callable[[], ProbeFinding]) -> ProbeFinding:
    """Return the finding of a probe. If an Envoy has ended, raise `EnvoyError`: no finding may blame a policy for that.

    On a busy machine a service may answer an ordinary request later than a timeout of the program admits. So a probe
    that met a timeout and did not observe the declared result is repeated: a policy that is not enforced fails each
    time.
    """
    for _ in range(LATE_TRIES):
        before = bed.timeouts
        try:
            finding = probe()
        except TimeUpError:
            finding = NOT_TRIED
        except OSError:
            bed.check(closely=True)
            raise
        bed.check(closely=not finding.outcome.is_good)
        if finding.outcome is not ProbeOutcome.NOT_ENFORCED or bed.timeouts == before:
            break
    return finding


def _in_network(placement: Placement, index: int) -> frozenset[str]:
    """The policies that only a NetworkPolicy enforces on a call."""
    return frozenset(
        decision.policy
        for decision in placement.decisions
        if decision.place is Place.NETWORK and index in decision.calls
    )


def _call(bed: Bed, call: Call, in_network: frozenset[str]) -> ProbeFinding:
    program = bed.program
    request = meeting(program, call, None)
    if request is None:
        return unobservable("no request was found for it")
    protocols = ("http", "h2c") if call.port.protocol is Protocol.HTTP else (call.port.protocol.value,)
    guards = [p for p in policies_on(program, call) if holds(p.match, request) and denies(p, call.source)]
    if guards and all(guard.name in in_network for guard in guards):
        return unobservable(f"only a NetworkPolicy would refuse it, for `{guards[0].name}`: none is enforced here")
    replies = [bed.send(call, request, protocol=protocol) for protocol in protocols]
    right = all(rejected(call, reply) if guards else _answered(program, call, reply) for reply in replies)
    expected = f"rejected by `{guards[0].name}`" if guards else f"an answer of `{call.destination}`"
    sent = described(call, request)
    if len(protocols) > 1:
        sent = f"{sent} (HTTP/1.1 and HTTP/2)"
    return judged(right, sent, expected, " / ".join(dict.fromkeys(_observed(call, reply) for reply in replies)))


def _answered(program: Program, call: Call, reply: Reply) -> bool:
    if reply.seen is None:
        return False
    return reply.ok and (reply.seen.service == call.destination or is_split(program, call))


def _observed(call: Call, reply: Reply) -> str:
    if reply.seen is None:
        return reply.label
    label = reply_label(call, reply)
    return label if reply.seen.service == call.destination else f"{label} from `{reply.seen.service}`"


def policies(bed: Bed, placement: Placement) -> Iterator[PolicyRow]:
    """Probe every decision of the placement. Quotas come last: their probes empty the buckets. Raises `EnvoyError`."""
    decisions = sorted(placement.decisions, key=lambda decision: is_quota(bed.program.policy_by_name[decision.policy]))
    for decision in decisions:
        policy = bed.program.policy_by_name[decision.policy]
        if decision.place is Place.NETWORK:
            yield _network(bed.program, policy, decision)
        for side in decision.place.sides:
            if is_quota(policy):
                yield from _quota(bed, policy, decision, side)
            else:
                yield from _call_probes(bed, policy, decision, side)
                yield from _undeclared(bed, policy, decision, side)


def _network(program: Program, policy: Policy, decision: Decision) -> PolicyRow:
    sources = tuple(dict.fromkeys(program.calls[index].source for index in decision.calls)) or ("*",)
    port = program.calls[decision.calls[0]].port.number if decision.calls else decision.ports[0]
    return PolicyRow(policy.name, policy.kind.name, sources, decision.destination, port, None, None, IN_NETWORK)


def _call_probes(bed: Bed, policy: Policy, decision: Decision, side: Side) -> Iterator[PolicyRow]:
    for index in decision.calls:
        call = bed.program.calls[index]
        finding = _tried(bed, lambda call=call: _probe(bed, policy, call))  # type: ignore[misc]
        yield _row(policy, (call,), side, finding)


def _probe(bed: Bed, policy: Policy, call: Call) -> ProbeFinding:
    probe = probe_of(policy)
    if probe is None:
        return unobservable(why_not_observable(policy))
    request = request_for(bed.program, call, policy)
    if isinstance(request, ProbeFinding):
        return request
    bed.prepare(call, request)
    return probe(bed, policy, call, request)


def _quota(bed: Bed, policy: Policy, decision: Decision, side: Side) -> Iterator[PolicyRow]:
    asked: list[tuple[Call, Request]] = []
    reasons: list[ProbeFinding] = []
    for index in decision.calls:
        call = bed.program.calls[index]
        request = request_for(bed.program, call, policy)
        if isinstance(request, ProbeFinding):
            reasons.append(request)
        elif (smaller := _smaller_quota(bed.program, call, policy, request)) is not None:
            reasons.append(ProbeFinding(ProbeOutcome.HIDDEN, f"the smaller `{smaller.name}` is empty first"))
        else:
            asked.append((call, request))
    if asked:
        finding = _tried(bed, lambda: quota(bed, policy, asked))
        yield _row(policy, tuple(call for call, _ in asked), side, finding)
    elif decision.calls:
        yield _row(policy, tuple(bed.program.calls[index] for index in decision.calls), side, reasons[0])


def _smaller_quota(program: Program, call: Call, policy: Policy, request: Request) -> Policy | None:
    for other in policies_on(program, call):
        if other is not policy and is_quota(other) and holds(other.match, request):
            theirs, ours = other.arguments["burst"], policy.arguments["burst"]
            if isinstance(theirs, int) and isinstance(ours, int) and theirs <= ours:
                return other
    return None


def _undeclared(bed: Bed, policy: Policy, decision: Decision, side: Side) -> Iterator[PolicyRow]:
    """Send to a destination that a guard protects at ingress, from a service without a declared call. If every service
    has one, send from an unknown address."""
    admitted = callers(policy)
    alone = policy.kind.traits.judges_caller_alone
    if not alone or side is not Side.INGRESS or admitted is None or not decision.calls:
        return
    program, call = bed.program, bed.program.calls[decision.calls[0]]
    declared = {
        declared_call.source for declared_call in program.calls if declared_call.destination == call.destination
    }
    others = [
        name
        for name, service in program.services.items()
        if name not in declared | {call.destination, *admitted} and not service.host_network
    ]
    if not others and not any(name in program.externals for name in (*declared, *admitted)):
        others = [STRANGER]  # an unknown address may belong to an outside party among the callers
    request = meeting(program, call, policy)
    if policy.open_sources and others and request is not None:
        finding = _tried(bed, lambda: _rejection(bed, call, request, others[0]))
        yield _row(policy, (call,), side, finding)._replace(sources=(others[0],))


def _rejection(bed: Bed, call: Call, request: Request, source: str) -> ProbeFinding:
    reply = bed.send(call, request, source=source)
    origin = "an unknown address" if source == STRANGER else f"`{source}`, undeclared"
    sent = f"{described(call, request)} from {origin}"
    return judged(rejected(call, reply), sent, "rejected", reply_label(call, reply))


def _row(policy: Policy, on: Sequence[Call], side: Side, finding: ProbeFinding) -> PolicyRow:
    call = on[0]
    adm = call.destination if side is Side.INGRESS else call.source
    sources = tuple(dict.fromkeys(tried_call.source for tried_call in on))
    return PolicyRow(policy.name, policy.kind.name, sources, call.destination, call.port.number, side, adm, finding)


def _adms(placement: Placement, index: int, call: Call) -> tuple[str, ...]:
    sides = {side for decision in placement.decisions if index in decision.calls for side in decision.place.sides}
    hosts = {Side.EGRESS: call.source, Side.INGRESS: call.destination}
    return tuple(hosts[side] for side in (Side.EGRESS, Side.INGRESS) if side in sides)
