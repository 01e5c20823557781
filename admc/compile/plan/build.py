"""Builds the plan, which people review, from a program and its placement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from admc.compile.plan.contents import call_rows, external_rows, line_of, policy_rows, service_rows
from admc.compile.plan.estimated import MEASURED, estimated
from admc.compile.plan.model import (
    FREE,
    SCHEMA_VERSION,
    AdmPlan,
    AdmPolicy,
    AdmPort,
    Assumption,
    Closed,
    DecisionPlan,
    Enforcement,
    InputFile,
    NotTaken,
    Objective,
    Plan,
    Solver,
    Warned,
)
from admc.compile.plan.reasons import adm_reasons
from dsl.program import Place, Policy, Program, Reliance, Side, Verb
from solver.placement import Decision, Placement, Reason, admitted_parties

if TYPE_CHECKING:
    from admc.cost.report import Report
    from admc.cost.rows import AdmRow

SIDES = (Side.INGRESS, Side.EGRESS)


class Share(NamedTuple):
    """The part of a decision that one service enforces. An ADM and its reasons are built from shares."""

    side: Side
    position: int
    """The position of the policy in declared order."""
    decision: Decision


def build(program: Program, placement: Placement, overhead: Report | None) -> Plan:
    """Build the plan. `overhead` is the estimate by the program's profile, if the program has a profile."""
    shares = shares_by_service(program, placement)
    estimate = estimated(overhead)
    return Plan(
        schema_version=SCHEMA_VERSION,
        app=program.app,
        inputs=tuple(InputFile(item.path, item.sha256) for item in program.inputs),
        solver=Solver(
            "or-tools cp-sat",
            version("ortools"),
            placement.status,
            tuple(
                Objective(*level)
                if level.metric in estimate.metrics or level.metric not in MEASURED
                else Objective(level.metric, None, None)
                for level in placement.objectives
            ),
        ),
        services=service_rows(program),
        externals=external_rows(program),
        calls=call_rows(program),
        policies=policy_rows(program),
        adms=tuple(
            _adm(program, adm.service, shares.get(adm.service, []), estimate.adms.get(adm.service))
            for adm in placement.adms
        ),
        enforcements=tuple(_enforcements(program, placement)),
        decisions=tuple(_decision(program, decision) for decision in placement.decisions),
        closed=_closed(program, placement),
        assumptions=tuple(_assumptions(program, placement)),
        warnings=tuple(
            Warned(item.code, item.message, None if item.span is None else line_of(item.span))
            for item in program.warnings
        ),
        overhead=estimate.overhead,
        profile=estimate.profile,
    )


def shares_by_service(program: Program, placement: Placement) -> dict[str, list[Share]]:
    """The shares of each service: ingress before egress, then by declared order, then by destination."""
    position = {policy.name: index for index, policy in enumerate(program.policies)}
    shares: dict[str, list[Share]] = {}
    for decision in placement.decisions:
        for side in decision.place.sides:
            share = Share(side, position[decision.policy], decision)
            for host in hosts(program, decision, side):
                shares.setdefault(host, []).append(share)
    for held in shares.values():
        # The sort is stable, and decisions are already sorted by policy and destination.
        held.sort(key=lambda share: share.side is Side.EGRESS)
    return shares


def hosts(program: Program, decision: Decision, side: Side) -> Iterable[str]:
    """Services whose ADM does the work of a decision at a side."""
    if side is Side.INGRESS:
        return (decision.destination,)
    # One sender may call several ports.
    return dict.fromkeys(program.calls[index].source for index in decision.calls)


def _enforcements(program: Program, placement: Placement) -> Iterable[Enforcement]:
    calls = program.calls
    for decision in placement.decisions:
        name, destination = decision.policy, decision.destination
        if not decision.calls and decision.place.sees_undeclared:
            place = Place.NETWORK if decision.place is Place.NETWORK else Place.INGRESS
            for number in decision.ports:
                yield Enforcement(name, "*", destination, number, place, _host(place, None, destination))
        for index in decision.calls:
            call = calls[index]
            for end in decision.place.ends:
                host = _host(end, call.source, destination)
                yield Enforcement(name, call.source, destination, call.port.number, end, host)


def _host(end: Place, source: str | None, destination: str) -> str | None:
    """The service whose ADM enforces a policy at one end of a call; None in the network."""
    return {Place.INGRESS: destination, Place.EGRESS: source}.get(end)


def _adm(program: Program, service: str, held: Sequence[Share], overhead: AdmRow | None) -> AdmPlan:
    grouped: dict[tuple[Side, str], list[str]] = {}
    ports: set[AdmPort] = set()
    for side, _position, decision in held:
        grouped.setdefault((side, decision.policy), []).append(decision.destination)
        if side is Side.INGRESS:
            ports.update(AdmPort(side, service, number) for number in decision.ports)
            continue
        for index in decision.calls:
            call = program.calls[index]
            if call.source == service:
                ports.add(AdmPort(side, call.destination, call.port.number))
    return AdmPlan(
        service=service,
        dataplane="envoy",
        directions=tuple(side for side in SIDES if any(share.side is side for share in held)),
        ports=tuple(sorted(ports, key=lambda port: (port.direction is Side.EGRESS, port.service, port.port))),
        policies=tuple(
            AdmPolicy(policy, side, tuple(destinations), line_of(program.policy_by_name[policy].span))
            for (side, policy), destinations in grouped.items()
        ),
        replicas=program.services[service].replicas,
        because=adm_reasons(program, [(side, decision) for side, _position, decision in held]),
        overhead=overhead,
    )


def _decision(program: Program, decision: Decision) -> DecisionPlan:
    return DecisionPlan(
        decision.policy,
        decision.destination,
        decision.place,
        decision.ports,
        decision.open,
        decision.closes,
        tuple(_not_taken(place, decision.ruled_out[place]) for place in Place if place in decision.ruled_out),
        line_of(program.policy_by_name[decision.policy].span),
    )


def _not_taken(place: Place, reason: Reason | None) -> NotTaken:
    if reason is None:
        return NotTaken(place, FREE, None, ())
    return NotTaken(place, reason.rule.value, reason.message, tuple(line_of(span) for span in reason.spans))


def _closed(program: Program, placement: Placement) -> tuple[Closed, ...]:
    policies: dict[str, list[str]] = {name: [] for name in placement.closed}
    senders: dict[str, dict[str, None]] = {name: {} for name in placement.closed}
    for decision in placement.decisions:
        if decision.closes:
            policies.setdefault(decision.destination, []).append(decision.policy)
    alone = {decision.destination for decision in placement.decisions if decision.place is Place.NETWORK}
    for call in program.calls:
        if call.destination in senders and call.destination not in alone:
            senders[call.destination][call.source] = None
    for (destination, _target), parties in admitted_parties(program, placement).items() if alone else ():
        if destination in alone:
            senders[destination].update(dict.fromkeys(parties))
    return tuple(Closed(name, tuple(policies[name]), tuple(sorted(senders[name]))) for name in placement.closed)


def _assumptions(program: Program, placement: Placement) -> Iterable[Assumption]:
    if placement.closed:
        yield Assumption(placement.closed, "the cluster's network plugin enforces the NetworkPolicy that closes these")
        yield Assumption(placement.closed, "no other NetworkPolicy admits more callers to these")
        yield Assumption(
            _selected(program, placement),
            "their pods carry the labels of the program (`app: NAME` if it gives none), and no other pods in these "
            "namespaces do",
        )
    alone = {decision.destination for decision in placement.decisions if decision.place is Place.NETWORK}
    if alone:
        about = tuple(sorted(alone))
        yield Assumption(
            about, "a node passes the NetworkPolicies of its pods, so nothing on its own network calls these"
        )
        yield Assumption(about, "connections that are older than the NetworkPolicy were admitted, since they stay open")
        if not _admitted(program, placement).isdisjoint(program.externals):
            yield Assumption(
                about,
                "connections of an external arrive with its addresses, which no pod has: nothing on the way translates "
                "them",
            )
    outside: set[str] = set()
    trusting: set[str] = set()
    by_address: set[str] = set()
    for decision in placement.decisions:
        policy = program.policy_by_name[decision.policy]
        relies_on = decision.place.relies_on
        if Reliance.SENDERS in relies_on:
            if decision.open and decision.destination in program.externals:
                outside.add(decision.destination)
            if policy.kind.guard or any(effect.verb is Verb.REJECTS for effect in policy.effects or ()):
                trusting.update(program.calls[index].source for index in decision.calls)
        if Reliance.ADDRESSES in relies_on and _identifies_callers(policy):
            by_address.add(decision.destination)
    if outside:
        yield Assumption(
            tuple(sorted(outside)),
            "these lie outside the mesh, so nothing closes them: callers that the program does not declare are not met",
        )
    if trusting:
        yield Assumption(
            tuple(sorted(trusting)),
            "no container here can change its network (NET_ADMIN) or runs as the sidecar's user; mark it `untrusted` "
            "if one can",
        )
    if by_address:
        yield Assumption(
            tuple(sorted(by_address)),
            "these tell their callers apart by address, so nothing on the way translates addresses",
        )


def _selected(program: Program, placement: Placement) -> tuple[str, ...]:
    """The services that NetworkPolicies select by labels: closed ones, and their senders."""
    closed = set(placement.closed)
    senders = {call.source for call in program.calls if call.destination in closed}
    return tuple(sorted(closed | ((senders | _admitted(program, placement)) & program.services.keys())))


def _admitted(program: Program, placement: Placement) -> frozenset[str]:
    """The parties that guards of the network admit somewhere."""
    if all(decision.place is not Place.NETWORK for decision in placement.decisions):
        return frozenset()
    return frozenset().union(*admitted_parties(program, placement).values())


def _identifies_callers(policy: Policy) -> bool:
    types = (parameter.type.element or parameter.type for parameter in policy.kind.parameters)
    return not policy.open_sources or any(item.name == "caller" for item in types)
