"""What one request meets: the policies on its call, in declared order, until a policy ends the request.

    CallInTest, Way -> Passage

The ADMs at which the policies are enforced make no difference (docs/rules.md, R6), with one exception. At a port that
the placement closes (R7), a NetworkPolicy refuses undeclared callers before they meet a policy at its ingress.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from admc.review.program_tests.callers import alike, at_unknown_address, past_closing, policies_on
from admc.review.program_tests.facts import Way
from admc.review.program_tests.kinds import End, EvaluationContext, Redirect, decided, step
from admc.review.program_tests.mesh import Applying, Mesh, Target
from admc.review.program_tests.model import CallInTest
from admc.review.program_tests.request import Lines, RequestState, compare
from dsl.match import And, Comparison, Match, Not, Or
from dsl.program import Policy, Side, callee
from emitters.envoy.held_headers import HELD

_CONNECT: Final = "CONNECT"


class Passage(NamedTuple):
    met: tuple[str, ...]
    """The policies that the request meets, in order, including the policy that ends it."""
    end: End | None
    """How the request ends; None if it reaches a service."""


def follow(
    mesh: Mesh, applying: tuple[Applying, ...], call: CallInTest, way: Way, ignored: frozenset[str] = frozenset()
) -> Passage:
    """The passage of a request through the policies that apply to its call. `way` decides open facts.

    `ignored`: policies that change no request, which are left out.
    """
    target = Target(call.destination, call.port, call.declared)
    key = call.destination, call.port.number
    closing = mesh.closing.get(key, ())
    if not closing or call.source in mesh.admitted[key]:
        return _past(mesh, applying, call, way, ignored)
    alone = mesh.network.get(key, ())
    closing = tuple(name for name in closing if name not in alone or not _names(mesh, name, call.source))
    if call.declared:  # a guard of the network with `accept drop`, behind the policies of the sender's ADM
        inner = {*alone, *(one.policy.name for one in applying if mesh.at_ingress(one.policy, target))}
        sent = _past(mesh, tuple(one for one in applying if one.policy.name not in inner), call, way, ignored)
        by = tuple(name for name in closing if name in alone)
        dropped = End(by, f"the NetworkPolicy of `{call.destination}` drops it")
        return sent if sent.end is not None else sent._replace(end=dropped)
    behind = tuple(candidate for candidate in applying if mesh.at_ingress(candidate.policy, target))
    passing = past_closing(mesh, call.source, target)
    if passing is not None and way.holds(passing):
        return _past(mesh, behind, call, way, ignored)
    # A policy at ingress may refuse the request as well, so a test that expects this policy to refuse it holds, too.
    also = _past(mesh, behind, call, way, ignored).end
    by = (*closing, *(() if also is None or also.answered else also.by))
    return Passage((), End(tuple(dict.fromkeys(by)), f"the NetworkPolicy of `{call.destination}` refuses it"))


def _past(mesh: Mesh, applying: tuple[Applying, ...], call: CallInTest, way: Way, ignored: frozenset[str]) -> Passage:
    target = Target(call.destination, call.port, call.declared)
    unknown = at_unknown_address(mesh, call.source, target)
    context = EvaluationContext(mesh.program, call.source, call.passes, way, unknown, alike(mesh, call.source))
    state = _sent(call)
    met: list[str] = []
    # The first ADM on the way of a CONNECT answers it, after the policies of that ADM.
    answers = mesh.first_adm(call.source, target) if call.method == _CONNECT else None
    if answers is Side.EGRESS:
        applying = tuple(candidate for candidate in applying if not mesh.at_ingress(candidate.policy, target))
    waiting = list(applying[::-1])
    while waiting:
        candidate = waiting.pop()
        policy = candidate.policy
        if policy.name in ignored or not _applies(candidate, way):
            continue
        if policy.match is not None and not _holds(policy.match, policy, context, state):
            continue
        met.append(policy.name)
        outcome = step(policy, context, state)
        if isinstance(outcome, End):
            return Passage(tuple(met), outcome)
        if isinstance(outcome, Redirect) and answers is not None:
            state = outcome.state
        elif isinstance(outcome, Redirect):
            target = _target(mesh, call.source, outcome.to)
            context = context._replace(unknown=at_unknown_address(mesh, call.source, target))
            waiting = list(policies_on(mesh, call.source, target)[::-1])
            state = outcome.state
        else:
            state = outcome
    return Passage(tuple(met), None if answers is None else End((), "every ADM answers a `CONNECT` with 405"))


def _names(mesh: Mesh, policy: str, caller: str) -> bool:
    return caller in mesh.program.policy_by_name[policy].named("caller")


def _applies(candidate: Applying, way: Way) -> bool:
    opposite = any(way.holds(fact) for fact in candidate.doubts)
    return candidate.surely is not opposite


def _target(mesh: Mesh, source: str, to: str) -> Target:
    name, number = callee(to)
    party = mesh.program.services.get(name) or mesh.program.externals[name]
    port = next(port for port in party.ports if number in (None, port.number))
    return Target(name, port, (source, name, port.number) in mesh.declared)


def _sent(call: CallInTest) -> RequestState:
    def lines(value: str | None) -> Lines:
        return Lines(open=True) if value is None else Lines((value,))

    headers = {name: Lines(_seen(name, values)) for name, values in (call.headers or {}).items()}
    return RequestState(lines(call.path), lines(call.method), headers)


def _seen(name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """The lines that policies see: they see no empty value of the header that ADMs hold back (docs/invisible.md)."""
    return values if name != HELD or any(values) else ()


def _holds(match: Match, policy: Policy, context: EvaluationContext, state: RequestState) -> bool:
    """Whether a match holds. An open comparison is decided only if the match depends on it."""
    known = _known(match, state)
    if known is not None:
        return known
    if isinstance(match, And):
        return all(_holds(operand, policy, context, state) for operand in match.operands)
    if isinstance(match, Or):
        return any(_holds(operand, policy, context, state) for operand in match.operands)
    if isinstance(match, Not):
        return not _holds(match.operand, policy, context, state)
    return decided(match, policy, context.way, state)


def _known(match: Match, state: RequestState) -> bool | None:
    """Whether a match holds; None if that depends on open parts of the request."""
    if isinstance(match, Comparison):
        return compare(match, state.lines(match.field))
    if isinstance(match, Not):
        operand = _known(match.operand, state)
        return None if operand is None else not operand
    values = [_known(operand, state) for operand in match.operands]
    decisive = isinstance(match, Or)
    if decisive in values:
        return decisive
    return None if None in values else not decisive
