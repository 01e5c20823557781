"""Explains an application, a service or a policy, from the computed placement.

To show how an ADM could be removed, the program is solved again with the service marked `no adm`. If the changed
program has a placement, its number of ADMs is shown. Otherwise the conflict names the lines that require the ADM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from admc.base.baseline import baseline_of
from admc.compile.explain.explanation import Explanation, Point, Section, section
from admc.compile.explain.order import order_points
from admc.compile.plan.build import Share, hosts, shares_by_service
from admc.compile.plan.reasons import adm_reasons, quoted_list, sentence
from dsl.program import Mark, Place, Policy, Program, Service, Side
from solver.placement import ConflictPart, Decision, Placement, PlacementError

SHOWN = 40
"""The most points of a section that are listed. The others are counted."""

Solve = Callable[[Program], Placement]
CostOfOther = Callable[[Decision, Place], str | None]
"""Returns the cost of a place that was not taken, as the end of a sentence, or None if costs did not decide."""


def _unknown(_decision: Decision, _place: Place) -> None:
    return None


def explain_application(program: Program, placement: Placement, solve: Solve) -> Explanation:
    """The first `SHOWN` ADMs with their reasons, the number of the others, the policies that NetworkPolicies alone
    enforce, the services without an ADM, and the ADMs that NetworkPolicies alone would save."""
    shares = shares_by_service(program, placement)
    hosting = {adm.service for adm in placement.adms}
    sections: list[Section] = []
    for adm in placement.adms[:SHOWN]:
        sections += section(f"ADM of `{adm.service}`", _reasons(program, adm.service, shares.get(adm.service, [])))
    sections += section("enforced by NetworkPolicies alone", _in_network(placement))
    without = [name for name in program.services if name not in hosting]
    points = [Point(quoted_list(without) + (" need none" if len(without) > 1 else " needs none"))] if without else []
    if len(placement.adms) > SHOWN:
        points.append(Point(f"{len(placement.adms) - SHOWN} more ADMs are in the plan"))
    sections += section("without an ADM", points)
    sections += section("what would save more", saved_by_network(program, placement, solve))
    answer = baseline_of(program.services.values()).sentence(len(placement.adms), "has", "have")
    return Explanation(f"`{program.app}`", answer, tuple(sections))


def _in_network(placement: Placement) -> list[Point]:
    """The policies that no ADM enforces, by the destination whose NetworkPolicy does."""
    guards: dict[str, list[str]] = {}
    for decision in placement.decisions:
        if decision.place is Place.NETWORK:
            guards.setdefault(decision.destination, []).append(decision.policy)
    points = [Point(f"at `{name}`: {quoted_list(guards[name])}") for name in sorted(guards)[:SHOWN]]
    if len(guards) > SHOWN:
        points.append(Point(f"{len(guards) - SHOWN} more destinations are in the plan"))
    return points


def explain_service(
    program: Program, placement: Placement, name: str, solve: Solve, cost: CostOfOther = _unknown
) -> Explanation:
    """Explain why a service has an ADM or none. `solve` places a changed program, or raises `PlacementError`.

    If there is a profile, `cost` returns the cost of another place of a decision.
    """
    shares = shares_by_service(program, placement).get(name, [])
    if any(adm.service == name for adm in placement.adms):
        return Explanation(
            f"service `{name}`",
            f"`{name}` has an ADM",
            (
                *section("why it is there", _reasons(program, name, shares)),
                *section("why not at another place", _others(shares, cost)),
                *section("what would remove it", _removal(program, placement, name, solve)),
            ),
        )
    service = program.services[name]
    points = _enforced_by_others(program, placement, name, cost)
    sections = section("where its policies are", points)
    answer = f"`{name}` has no ADM: {_enforced_elsewhere(placement, name) if points else 'no policy concerns it'}"
    if not service.can_host:
        sections += section("can it have one", [_cannot_host(service)])
    return Explanation(f"service `{name}`", answer, sections)


def explain_policy(
    program: Program, placement: Placement, name: str, solve: Solve, cost: CostOfOther = _unknown
) -> Explanation:
    """Explain where a policy is enforced, destination by destination, why not at another place, what its place in the
    declared order means, and what NetworkPolicies alone would save."""
    policy = program.policy_by_name[name]
    decisions = [decision for decision in placement.decisions if decision.policy == name]
    points: list[Point] = []
    for decision in decisions[:SHOWN]:
        points.append(Point(_where(program, decision)))
        points += [_not_taken(decision, place, cost) for place in Place if place in decision.ruled_out]
        if decision.closes and decision.place is not Place.NETWORK:
            points.append(Point(f"`{decision.destination}` is closed to undeclared callers"))
    if not decisions:
        points.append(Point("nowhere: no declared call is in its scope, and it is for declared callers only"))
    if len(decisions) > SHOWN:
        points.append(Point(f"{len(decisions) - SHOWN} more destinations are in the plan"))
    answer = (
        f"`{name}` is enforced for {quoted_list(policy.destinations)}" if decisions else f"`{name}` applies to nothing"
    )
    return Explanation(
        f"policy `{name}`",
        answer,
        (
            *section("declared", _declared(policy)),
            *section("where it is enforced", points),
            *section("what its place in the order means", order_points(program, name)[:SHOWN]),
            *section(
                "what would save more", saved_by_network(program, placement, solve) if policy.kind.network else []
            ),
        ),
    )


def _declared(policy: Policy) -> list[Point]:
    places = [place for place in Place if place in policy.kind.places and _offered(place, policy)]
    *others, last = places
    sides = f"{', '.join(others)} or {last}" if others else last
    points = [
        Point("the policy", (policy.span,)),
        Point(
            f"its kind `{policy.kind.name}` works at {'both ends' if policy.kind.both else sides}",
            policy.kind.declaration,
        ),
    ]
    if policy.narrowing is not None:
        narrowed = " or ".join(place for place in Place if place in policy.places)
        points.append(Point(f"the policy itself asks for {narrowed}", (policy.narrowing,)))
    return points


def _reasons(program: Program, name: str, shares: Sequence[Share]) -> list[Point]:
    reasons = adm_reasons(program, [(share.side, share.decision) for share in shares])
    points = [
        Point(sentence(because, name), (program.policy_by_name[because.policy].span,)) for because in reasons[:SHOWN]
    ]
    if len(reasons) > SHOWN:
        points.append(Point(f"{len(reasons) - SHOWN} more reasons are in the plan"))
    return points


def _others(shares: Sequence[Share], cost: CostOfOther) -> list[Point]:
    """The other place of each decision that this ADM enforces."""
    points = [
        _not_taken(share.decision, place, cost)
        for share in shares
        for place in Place
        if place in share.decision.ruled_out
    ]
    return list(dict.fromkeys(points))[:SHOWN]


def _not_taken(decision: Decision, place: Place, cost: CostOfOther) -> Point:
    reason = decision.ruled_out[place]
    at = _at(place, decision.destination)
    if reason is None:
        but = cost(decision, place) or "it is no better for the objective"
        return Point(f"`{decision.policy}` could be {at}: no rule forbids it, but {but}")
    return Point(f"`{decision.policy}` cannot be {at}: {reason.message} ({reason.rule})", reason.spans)


def _offered(place: Place, policy: Policy) -> bool:
    """Whether the place is one that the program offers: without its statement, nothing is left to NetworkPolicies."""
    return place is not Place.NETWORK or place in policy.places


def _at(place: Place, destination: str) -> str:
    if place is Place.NETWORK:
        return f"in the network at `{destination}`"
    return f"at the ingress of `{destination}`" if place is Place.INGRESS else f"at the senders to `{destination}`"


def _where(program: Program, decision: Decision) -> str:
    if decision.place is Place.NETWORK:
        return f"towards `{decision.destination}`: in the network, by its NetworkPolicy alone"
    places = []
    for side in decision.place.sides:
        at = list(hosts(program, decision, side))
        if not at:
            places.append("nowhere, since no caller can reach it")
        elif side is Side.INGRESS:
            places.append(f"at the ingress of `{decision.destination}`")
        else:
            places.append(f"at the egress of {quoted_list(at)}")
    return f"towards `{decision.destination}`: {' and '.join(places)}"


def _enforced_elsewhere(placement: Placement, name: str) -> str:
    places = {decision.place for decision in placement.decisions if decision.destination == name}
    return (
        "its NetworkPolicy enforces its policies"
        if places == {Place.NETWORK}
        else "other services enforce its policies"
    )


def _enforced_by_others(program: Program, placement: Placement, name: str, cost: CostOfOther) -> list[Point]:
    """The decisions on calls to or from a service that has no ADM. Other services enforce all of these decisions."""
    points = []
    for decision in placement.decisions:
        sends = any(program.calls[index].source == name for index in decision.calls)
        if decision.destination != name and not sends:
            continue
        points.append(Point(f"`{decision.policy}` {_where(program, decision)}"))
        here = Place.INGRESS if decision.destination == name else Place.EGRESS
        if here in decision.ruled_out:
            points.append(_not_taken(decision, here, cost))
    return points[: 2 * SHOWN]


def _cannot_host(service: Service) -> Point:
    mark = Mark.HOST_NETWORK if service.host_network else Mark.NO_ADM
    why = "it is on the host's network" if service.host_network else "it is marked `no adm`"
    if (shown := service.shown(mark)) is not None:
        why = f"in the cluster it cannot ({shown})"
    return Point(f"no: {why}", (service.place(mark),))


def _removal(program: Program, placement: Placement, name: str, solve: Solve) -> list[Point]:
    service = program.services[name]
    without = replace(program, services={**program.services, name: replace(service, hosts_adm=False)})
    try:
        other = solve(without)
    except PlacementError as error:
        return _conflicting_lines(name, service, error.parts)
    before = {adm.service for adm in placement.adms}
    after = {adm.service for adm in other.adms}
    cost = len(after) - len(before)
    added = sorted(after - before)
    change = f"{quoted_list(added)} would get one instead" if added else "nothing would take its place"
    if cost > 0:
        text = f"`no adm` at `{name}` is possible, but costs {cost} more in total: {change}"
    elif cost == 0:
        text = f"`no adm` at `{name}` is possible at the same number of ADMs: {change}"
    else:  # only if the placement was not proven optimal
        text = f"`no adm` at `{name}` would save {-cost}: the placement was not proven optimal"
    return [Point(text, (service.span,))]


def _conflicting_lines(name: str, service: Service, parts: Sequence[ConflictPart]) -> list[Point]:
    """The lines of the conflict that the mark `no adm` would cause, without that mark itself."""
    own = {service.span, service.note}
    lines = [part for part in parts if part.span not in own]
    head = "nothing without a change of the program: some request would pass no ADM. Any of these changes would do"
    points = [Point(head)] if lines else [Point(f"nothing: `{name}` itself is the only place")]
    points += [Point(f"{part.remedy}, because {part.message}", (part.span,)) for part in lines[:SHOWN]]
    return points


def saved_by_network(program: Program, placement: Placement, solve: Solve) -> list[Point]:
    """The ADMs that `network_policies enforced` would save in a program without it, if some guard could use it."""
    if program.network_policies is not None:
        return []
    stated = stating_network_policies(program)
    if stated is None:
        return []
    before, after = len(placement.adms), len(solve(stated).adms)
    if after >= before:
        return []
    number = "1 ADM" if before - after == 1 else f"{before - after} ADMs"
    return [
        Point(
            f"`network_policies enforced` would save {number}: guards that judge the caller alone would be left to "
            "NetworkPolicies. Say so only of a cluster whose network plugin enforces them (docs/rules.md, `network`)"
        )
    ]


def stating_network_policies(program: Program) -> Program | None:
    """The program with `network_policies enforced`; None if no policy of it could be in the network."""
    everyone = program.services.keys() | program.externals.keys()
    policies = tuple(
        replace(policy, places=policy.places | {Place.NETWORK})
        if policy.kind.network
        and policy.narrowing is None
        and policy.match is None
        and policy.open_sources
        and policy.sources == everyone
        else policy
        for policy in program.policies
    )
    if policies == program.policies:
        return None
    return replace(program, policies=policies, network_policies=program.policies[0].span)
