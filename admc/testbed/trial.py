"""Everything that a placement promises, tried out on a running application.

    program, placement, bed -> rows of [call | decision, finding]

What is tried follows from the program: one request along every declared call, one probe for every policy and call, one
for every quota and destination, and a stranger in front of every guard that stands at ingress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.testbed.findings import Bed, Finding, Outcome, asked_for, denies, is_split, judged, refused, unseen, wrong
from admc.testbed.matching import holds, meeting, policies_on
from admc.testbed.probes import GROUP_PROBES, PROBES, why_unseen
from dsl.program import Protocol, Side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.testbed.client import Reply, Request
    from dsl.program import Call, Policy, Program
    from solver.placement import Decision, Placement

QUOTAS = frozenset(GROUP_PROBES)


class CallRow(NamedTuple):
    """A plain request along one declared call. `proxies` are the services whose ADM it passes."""

    call: Call
    proxies: tuple[str, ...]
    finding: Finding


class PolicyRow(NamedTuple):
    """One policy at one destination, from one source or from all that share a bucket."""

    policy: str
    kind: str
    sources: tuple[str, ...]
    destination: str
    port: int | None
    side: Side
    host: str
    finding: Finding


def calls(bed: Bed, placement: Placement) -> Iterator[CallRow]:
    """One request along every declared call (http: one in HTTP/1.1 and one in HTTP/2), refused or answered as the
    program's guards say."""
    program = bed.program
    for call in program.calls:
        request = meeting(program, call, None)
        assert request is not None
        protocols = ("http", "h2c") if call.port.protocol is Protocol.HTTP else (call.port.protocol.value,)
        guards = [p for p in policies_on(program, call) if holds(p.match, request) and denies(p, call.source)]
        replies = [bed.send(call, request, protocol=protocol) for protocol in protocols]
        found = [_answer(program, call, guards, reply) for reply in replies]
        finding = next((each for each in found if each.outcome is Outcome.WRONG), found[0])
        if len(found) > 1:
            finding = finding._replace(evidence=" / ".join(dict.fromkeys(each.evidence for each in found)))
        proxies = _proxies(placement, program.calls.index(call), call)
        yield CallRow(call, proxies, finding)


def _answer(program: Program, call: Call, guards: list[Policy], reply: Reply) -> Finding:
    if guards:
        return judged(refused(reply), f"{reply.label}: `{guards[0].name}` refuses it")
    if reply.seen is None:
        return wrong(f"no answer from the service: {reply.label}")
    right = reply.seen.service == call.destination or is_split(program, call)
    return judged(reply.ok and right, f"{reply.label} from `{reply.seen.service}`")


def policies(bed: Bed, placement: Placement) -> Iterator[PolicyRow]:
    """Every decision of the placement, quotas last: they leave nothing for anybody else."""
    decisions = sorted(
        placement.decisions, key=lambda each: bed.program.policy_by_name[each.policy].kind.name in QUOTAS
    )
    for decision in decisions:
        policy = bed.program.policy_by_name[decision.policy]
        for side in decision.sides:
            if policy.kind.name in QUOTAS:
                yield from _group(bed, policy, decision, side)
            else:
                yield from _each(bed, policy, decision, side)
                yield from _stranger(bed, policy, decision, side)


def _each(bed: Bed, policy: Policy, decision: Decision, side: Side) -> Iterator[PolicyRow]:
    for index in decision.calls:
        call = bed.program.calls[index]
        yield _row(policy, (call,), side, _probe(bed, policy, call))


def _probe(bed: Bed, policy: Policy, call: Call) -> Finding:
    probe = PROBES.get(policy.kind.name) if policy.kind.prelude else None
    if probe is None:
        return unseen(why_unseen(policy))
    request = asked_for(bed.program, call, policy)
    if isinstance(request, Finding):
        return request
    bed.prepare(call, request)
    return probe(bed, policy, call, request)


def _group(bed: Bed, policy: Policy, decision: Decision, side: Side) -> Iterator[PolicyRow]:
    found: list[tuple[Call, Request]] = []
    reasons: list[Finding] = []
    for index in decision.calls:
        call = bed.program.calls[index]
        request = asked_for(bed.program, call, policy)
        if isinstance(request, Finding):
            reasons.append(request)
        elif (smaller := _smaller_quota(bed.program, call, policy, request)) is not None:
            reasons.append(Finding(Outcome.HIDDEN, f"the smaller `{smaller.name}` is empty first"))
        else:
            found.append((call, request))
    if found:
        finding = GROUP_PROBES[policy.kind.name](bed, policy, found)
        yield _row(policy, tuple(call for call, _ in found), side, finding)
    elif decision.calls:
        yield _row(policy, tuple(bed.program.calls[index] for index in decision.calls), side, reasons[0])


def _smaller_quota(program: Program, call: Call, policy: Policy, request: Request) -> Policy | None:
    for other in policies_on(program, call):
        if other is not policy and other.kind.name in QUOTAS and holds(other.match, request):
            theirs, ours = other.arguments["burst"], policy.arguments["burst"]
            if isinstance(theirs, int) and isinstance(ours, int) and theirs <= ours:
                return other
    return None


def _stranger(bed: Bed, policy: Policy, decision: Decision, side: Side) -> Iterator[PolicyRow]:
    """A service without a declared call knocks at a guard's door."""
    callers = policy.arguments.get("callers")
    if policy.kind.name != "allow" or side is not Side.INGRESS or not isinstance(callers, tuple) or not decision.calls:
        return
    program, call = bed.program, bed.program.calls[decision.calls[0]]
    declared = {each.source for each in program.calls if each.destination == call.destination}
    strangers = [
        name
        for name, service in program.services.items()
        if name not in declared | {call.destination, *callers} and not service.host_network
    ]
    request = meeting(program, call, policy)
    if not policy.open_sources or not strangers or request is None:
        return
    reply = bed.send(call, request, source=strangers[0])
    row = _row(
        policy, (call,), side, judged(refused(reply), f"`{strangers[0]}`, undeclared, is refused: {reply.label}")
    )
    yield row._replace(sources=(strangers[0],))


def _row(policy: Policy, on: tuple[Call, ...], side: Side, finding: Finding) -> PolicyRow:
    call = on[0]
    host = call.destination if side is Side.INGRESS else call.source
    sources = tuple(dict.fromkeys(each.source for each in on))
    return PolicyRow(policy.name, policy.kind.name, sources, call.destination, call.port.number, side, host, finding)


def _proxies(placement: Placement, index: int, call: Call) -> tuple[str, ...]:
    sides = {side for decision in placement.decisions if index in decision.calls for side in decision.sides}
    hosts = {Side.EGRESS: call.source, Side.INGRESS: call.destination}
    return tuple(hosts[side] for side in (Side.EGRESS, Side.INGRESS) if side in sides)
