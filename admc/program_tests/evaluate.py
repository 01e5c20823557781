"""What one request meets: the policies on its call in declared order, until one ends it.

Where a policy is enforced changes nothing of this (docs/rules.md, R6), but for one thing: a NetworkPolicy refuses
undeclared callers of a destination that the placement closes (R7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from admc.program_tests.facts import Way
from admc.program_tests.kinds import End, Place, Redirect, decided, step
from admc.program_tests.model import CallInTest
from admc.program_tests.request import Lines, RequestState, compare
from dsl.match import And, Comparison, Match, Not, Or
from dsl.program import Policy, Port, Program, Protocol, callee


class Passage(NamedTuple):
    met: tuple[str, ...]
    """The policies that the request meets, in order, also the one that ends it."""
    end: End | None
    """None: the request reaches a service."""


class Target(NamedTuple):
    destination: str
    port: Port
    declared: bool


Closing = Mapping[str, tuple[str, ...]]
"""Closed destination -> the policies that need its NetworkPolicy."""


def follow(program: Program, closing: Closing, policies: tuple[Policy, ...], call: CallInTest, way: Way) -> Passage:
    """The way of a request past the policies on its call; `way` decides what is open."""
    if not call.declared and call.destination in closing:
        return Passage((), End(closing[call.destination], f"the NetworkPolicy of `{call.destination}` refuses it"))
    place = Place(program, call.source, call.passes, way)
    state = _sent(call)
    met: list[str] = []
    waiting = list(policies[::-1])
    while waiting:
        policy = waiting.pop()
        if policy.match is not None and not _holds(policy.match, policy, place, state):
            continue
        met.append(policy.name)
        result = step(policy, place, state)
        if isinstance(result, End):
            return Passage(tuple(met), result)
        if isinstance(result, Redirect):
            waiting = list(policies_on(program, call.source, _target(program, call.source, result.to))[::-1])
            state = result.state
        else:
            state = result
    return Passage(tuple(met), None)


def policies_on(program: Program, source: str, target: Target) -> tuple[Policy, ...]:
    """The policies that apply to a call, in declared order.

    To undeclared calls only guards apply, and policies whose sources include `*`; none apply where the destination is
    an external, since nothing closes it.
    """
    protocol = target.port.protocol
    inside = target.destination in program.services
    return tuple(
        policy
        for policy in program.policies
        if source in policy.sources
        and (target.declared or (inside and (policy.open_sources or policy.kind.guard)))
        and (policy.ports is None or target.port.number in policy.ports)
        and protocol in policy.kind.protocols
        and (policy.match is None or protocol is not Protocol.TCP)
        and target.destination in policy.destinations
    )


def is_declared(program: Program, source: str, destination: str, port: Port) -> bool:
    return any(
        call.source == source and call.destination == destination and call.port.number == port.number
        for call in program.calls
    )


def _target(program: Program, source: str, to: str) -> Target:
    name, number = callee(to)
    party = program.services.get(name) or program.externals[name]
    port = next(port for port in party.ports if number in (None, port.number))
    return Target(name, port, is_declared(program, source, name, port))


def _sent(call: CallInTest) -> RequestState:
    def lines(value: str | None) -> Lines:
        return Lines(open=True) if value is None else Lines((value,))

    headers = {name: Lines(values) for name, values in (call.headers or {}).items()}
    return RequestState(lines(call.path), lines(call.method), headers)


def _holds(match: Match, policy: Policy, place: Place, state: RequestState) -> bool:
    """Whether a match holds; what is open is decided only where the match depends on it."""
    known = _known(match, state)
    if known is not None:
        return known
    if isinstance(match, And):
        return all(_holds(each, policy, place, state) for each in match.operands)
    if isinstance(match, Or):
        return any(_holds(each, policy, place, state) for each in match.operands)
    if isinstance(match, Not):
        return not _holds(match.operand, policy, place, state)
    return decided(match, policy, place.way, state)


def _known(match: Match, state: RequestState) -> bool | None:
    """Whether a match holds, as far as the request is known; None if that is open."""
    if isinstance(match, Comparison):
        return compare(match, state.lines(match.field))
    if isinstance(match, Not):
        operand = _known(match.operand, state)
        return None if operand is None else not operand
    values = [_known(each, state) for each in match.operands]
    decisive = isinstance(match, Or)
    if decisive in values:
        return decisive
    return None if None in values else not decisive
