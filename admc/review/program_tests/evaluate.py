"""What one request meets: the policies on its call in declared order, until one ends it.

Where a policy is enforced changes nothing of this (docs/rules.md, R6), but for undeclared callers: a NetworkPolicy
refuses them at a destination that the placement closes (R7), before they meet a policy at its ingress.
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
    """The policies that the request meets, in order, also the one that ends it."""
    end: End | None
    """None: the request reaches a service."""


def follow(
    mesh: Mesh, applying: tuple[Applying, ...], call: CallInTest, way: Way, ignored: frozenset[str] = frozenset()
) -> Passage:
    """The way of a request past the policies that apply to its call; `way` decides what is open.

    `ignored` are policies that change nothing: they are left out.
    """
    target = Target(call.destination, call.port, call.declared)
    if call.declared or call.destination not in mesh.closing:
        return _past(mesh, applying, call, way, ignored)
    behind = tuple(candidate for candidate in applying if mesh.at_ingress(candidate.policy, target))
    passing = past_closing(mesh, call.source, target)
    if passing is not None and way.holds(passing):
        return _past(mesh, behind, call, way, ignored)
    # A policy at ingress that refuses the request as well does so wherever the others are enforced.
    also = _past(mesh, behind, call, way, ignored).end
    by = (*mesh.closing[call.destination], *(() if also is None or also.answered else also.by))
    return Passage((), End(tuple(dict.fromkeys(by)), f"the NetworkPolicy of `{call.destination}` refuses it"))


def _past(mesh: Mesh, applying: tuple[Applying, ...], call: CallInTest, way: Way, ignored: frozenset[str]) -> Passage:
    target = Target(call.destination, call.port, call.declared)
    unknown = at_unknown_address(mesh, call.source, target)
    context = EvaluationContext(mesh.program, call.source, call.passes, way, unknown, alike(mesh, call.source))
    state = _sent(call)
    met: list[str] = []
    # The first ADM on its way answers a CONNECT, behind its own policies.
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
        result = step(policy, context, state)
        if isinstance(result, End):
            return Passage(tuple(met), result)
        if isinstance(result, Redirect) and answers is not None:
            state = result.state
        elif isinstance(result, Redirect):
            target = _target(mesh, call.source, result.to)
            context = context._replace(unknown=at_unknown_address(mesh, call.source, target))
            waiting = list(policies_on(mesh, call.source, target)[::-1])
            state = result.state
        else:
            state = result
    return Passage(tuple(met), None if answers is None else End((), "every ADM answers a `CONNECT` with 405"))


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
    """The lines that policies see: an empty value of a header that is held back counts as none (docs/invisible.md)."""
    return values if name not in HELD or any(values) else ()


def _holds(match: Match, policy: Policy, context: EvaluationContext, state: RequestState) -> bool:
    """Whether a match holds; what is open is decided only where the match depends on it."""
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
    """Whether a match holds, as far as the request is known; None if that is open."""
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
