"""The rules in their simplest form, as docs/rules.md states them: slow, for tests of the solver and the verifier.

`broken` looks at every request and every pair of policies and names each rule that an assignment of sides breaks.
`best` goes through all assignments.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator, Sequence

from dsl.match import And, Comparison, Match, Not, Operator, Or
from dsl.program import Effect, Element, Place, Policy, Program, Protocol, Side, Stage, Verb
from solver.placement import Costs, Hop, Rule
from tests.solver.build import (
    EGRESS,
    INGRESS,
    NETWORK,
    Assignment,
    Task,
    figures,
    hops,
    hosts,
    minimized,
    offered,
    tasks,
)

RESPONSE = {Element.STATUS, Element.RESPONSE_HEADER, Element.RESPONSE_BODY}

# The rows of the table in docs/rules.md.
ABOUT = {
    "reads request": "rejects delays repeats counts times_out routes copies",
    "reads response": "delays counts copies",
    "writes request": "rejects delays repeats counts times_out",
    "writes response": "delays counts copies",
}
OTHERS = {
    "rejects": "times_out",
    "delays": "delays counts",
    "repeats": "",
    "counts": "delays counts times_out copies",
    "times_out": "rejects counts copies",
    "routes": "",
    "copies": "counts times_out copies",
}
WAY = (EGRESS, NETWORK, INGRESS)
"""The places as a request passes them."""
RANK = {Verb.COPIES: 0, Verb.REPEATS: 1, Verb.TIMES_OUT: 1, Verb.ROUTES: 2}


def broken(program: Program, assignment: Assignment, costs: Costs) -> set[Rule]:
    """Every rule that the assignment breaks (one place a decision)."""
    found: set[Rule] = set()
    every = tasks(program)
    for task in every:
        found |= place_broken(program, task, assignment[task.key])
        for pin in program.pins:
            if (pin.policy, pin.destination) == task.key and pin.place not in assignment[task.key].ends:
                found.add(Rule.PIN)
    for before, after in itertools.combinations(every, 2):
        if not in_order(program, before, assignment[before.key], after, assignment[after.key]):
            found.add(Rule.ORDER)
    if costs.known:
        loads: dict[str, int] = {}
        for task in every:
            for side in assignment[task.key].sides:
                for host in hosts(program, task, side):
                    adm = costs.adm[host].cpu if host in costs.adm else 0
                    share = costs.enforcement.get((host, side, *task.key))
                    loads[host] = loads.get(host, adm) + (share.cpu if share else 0)
        for hop in {hop for task in every for side in assignment[task.key].sides for hop in hops(program, task, side)}:
            loads[hop[0]] += costs.hop[Hop(*hop)].cpu if hop in costs.hop else 0
        for host, load in loads.items():
            limit = program.services[host].capacity if host in program.services else None
            if limit is not None and load > limit * program.services[host].replicas * 1_000_000_000:
                found.add(Rule.CAPACITY)
    return found


def place_broken(program: Program, task: Task, place: Place) -> set[Rule]:
    """Every rule that forbids one place to one decision, whatever becomes of the others."""
    if place is NETWORK:
        return network_broken(program, task)
    found = set() if place in task.policy.kind.places & task.policy.places else {Rule.CAPABILITY}
    return found.union(*(_side_broken(program, task, side) for side in place.sides))


def network_broken(program: Program, task: Task) -> set[Rule]:
    """Every rule by which the network cannot enforce one decision."""
    return set(network_faults(program, task).values())


def network_faults(program: Program, task: Task) -> dict[str, Rule]:
    """Every condition of the place `network` that one decision does not meet, with its rule."""
    policy, there = task.policy, task.destination
    faults: dict[str, Rule] = {}

    def unless(holds: bool, condition: str, rule: Rule = Rule.CLOSED) -> None:
        if not holds:
            faults[condition] = rule

    everyone = program.services.keys() | program.externals.keys()
    unless(policy.kind.network, "a kind of the network", Rule.CAPABILITY)
    unless(policy.match is None, "no match", Rule.CAPABILITY)
    unless(policy.narrowing is None, "no narrowing", Rule.CAPABILITY)
    unless(policy.open_sources, "every source", Rule.CAPABILITY)
    unless(not policy.open_sources or policy.sources == everyone, "no exception", Rule.CAPABILITY)
    unless(program.network_policies is not None, "network policies enforced")
    if program.network_policies is None:
        unless(NETWORK in policy.places, "a place of the policy", Rule.CAPABILITY)
    unless(there in program.services, "a service", Rule.OUTSIDE)
    if there in program.services:
        ports = program.services[there].ports
        covered = {port.target for port in ports if port.number in task.ports}
        whole = all(port.number in task.ports for port in ports if port.target in covered)
        unless(whole, "whole targets")
        unless(closable(program, there), "a destination that can be closed")
    unless(all(has_an_address(program, name) for name in admitted(policy)), "admitted parties with an address")
    hosted = any(service.host_network for service in program.services.values())
    unless(not hosted or program.accepts_host_network is not None, "no host network")
    if there not in program.services:
        return faults  # nothing closes it, so nothing there drops a call
    refused = {index for index in task.calls if program.calls[index].source not in admitted(policy)}
    unless(not refused or policy.accepts_drop is not None, "no declared call refused")
    unless(all(program.calls[index].source != there for index in refused), "no self call refused")
    ways = {program.calls[index][:2] for index in refused}
    unless(not ways & acted_on(program), "no refused call repeated or counted")
    mine = [cidr for name in admitted(policy) if name in program.externals for cidr in program.externals[name].cidrs]
    others = [cidr for name in program.externals.keys() - admitted(policy) for cidr in program.externals[name].cidrs]
    unless(not any(smaller_inside(one, two) for one in others for two in mine), "no other party inside an admitted one")
    return faults


def acted_on(program: Program) -> set[tuple[str, str]]:
    """Sender and destination of each call that a policy repeats or counts if it gets no answer, and of each call that
    gets requests of another one by a split."""
    calls = program.calls
    ways = {calls[index][:2] for policy in program.policies if acts_on_drops(policy) for index in policy.calls}
    return ways | {
        (calls[index].source, str(policy.arguments["to"]).split(":")[0])
        for policy in program.policies
        if any(effect.verb is Verb.ROUTES for effect in policy.effects or ()) and "to" in policy.arguments
        for index in policy.calls
    }


def smaller_inside(one: str, other: str) -> bool:
    small, large = ipaddress.ip_network(one), ipaddress.ip_network(other)
    return small != large and small.version == large.version and small[0] in large and small[-1] in large


def admitted(policy: Policy) -> set[str]:
    """The callers that a guard names in its arguments."""
    names: set[str] = set()
    for parameter in policy.kind.parameters:
        if parameter.type.name == "caller":
            names.add(str(policy.arguments[parameter.name]))
        elif parameter.type.element is not None and parameter.type.element.name == "caller":
            value = policy.arguments[parameter.name]
            names |= set(map(str, value if isinstance(value, tuple) else ()))
    return names


def has_an_address(program: Program, name: str) -> bool:
    """Whether a NetworkPolicy can tell a party from all others."""
    if name in program.services:
        return not program.services[name].host_network
    cidrs = program.externals[name].cidrs
    return bool(cidrs) and not have_every_address(cidrs)


def acts_on_drops(policy: Policy) -> bool:
    """Whether a policy repeats or counts a request whose connection gets no answer."""
    on = policy.arguments.get("on")
    words = set(map(str, on)) if isinstance(on, tuple) else set()
    return policy.kind.traits.counts_dropped or bool(words & set(policy.kind.traits.repeats_dropped))


def _side_broken(program: Program, task: Task, side: Side) -> set[Rule]:
    policy, there = task.policy, task.destination
    found: set[Rule] = set()
    senders = {program.calls[index].source for index in task.calls}
    if side is Side.INGRESS:
        if there in program.externals:
            found.add(Rule.OUTSIDE)
        callers = {call.source for call in program.calls if call.destination == there}
        unknown = any(name in program.services and program.services[name].host_network for name in callers)
        everyone = set(program.services) | set(program.externals)
        takes_callers = any(
            "caller" in (parameter.type.name, getattr(parameter.type.element, "name", ""))
            for parameter in policy.kind.parameters
        )
        # A service that calls itself through its service address comes back as its node.
        unknown = unknown or there in callers
        if unknown and (not policy.open_sources or set(policy.sources) != everyone or takes_callers):
            found.add(Rule.CLOSED)
        named = set()
        for value in policy.arguments.values() if takes_callers else ():
            named |= set(map(str, value)) if isinstance(value, tuple) else {str(value)}
        if policy.kind.guard:
            named |= everyone - policy.sources if policy.open_sources else policy.sources
        if any(name in program.services and program.services[name].host_network for name in named):
            found.add(Rule.CLOSED)
        if policy.kind.guard and not policy.open_sources and there in policy.sources:
            found.add(Rule.CLOSED)
        own = program.services[there].ports if there in program.services else ()
        if {port.target for port in own if port.number in task.ports} & refusals_counted(program, there):
            found.add(Rule.CAPABILITY)
    else:
        if senders & set(program.externals):
            found.add(Rule.OUTSIDE)
        if policy.kind.per_replica or (policy.kind.state and len(senders) > 1):
            found.add(Rule.STATE)
        for sender in senders & set(program.services):
            service = program.services[sender]
            doubtful = not service.trusted or service.host_network
            rejects = policy.effects is None or any(e.verb is Verb.REJECTS for e in policy.effects)
            if doubtful and (policy.kind.guard or rejects):
                found.add(Rule.CLOSED)
        for sender in senders:
            if (sender, there) in inner_calls(program):
                found.add(Rule.CAPABILITY)
        if task.open and there in program.services:
            if not closable(program, there):
                found.add(Rule.CLOSED)
            if policy.kind.guard and not task.calls:
                found.add(Rule.CLOSED)
    for host in hosts(program, task, side):
        if host in program.services and (not program.services[host].hosts_adm or program.services[host].host_network):
            found.add(Rule.HOST)
    return found


def refusals_counted(program: Program, there: str) -> set[int]:
    """Targets of the destination's tcp ports at which some sender has to see that a connection is refused."""
    return {
        call.port.target
        for policy in program.policies
        if policy.kind.traits.counts_refused_connections
        for call in (program.calls[index] for index in policy.calls)
        if call.destination == there and call.port.protocol is Protocol.TCP
    }


def inner_calls(program: Program) -> set[tuple[str, str]]:
    """(sender, target) of every mirror and split, and (host, helper) of each service whose ADM may call a helper."""
    found = {
        (program.calls[index].source, str(policy.arguments["to"]).split(":")[0])
        for policy in program.policies
        if any(p.name == "to" and p.type.name == "service" for p in policy.kind.parameters)
        for index in policy.calls
    }
    for task in tasks(program):
        for parameter in task.policy.kind.parameters:
            if parameter.name == "service" and parameter.type.name == "service":
                helper = str(task.policy.arguments["service"]).split(":")[0]
                for side in task.policy.sides:
                    found |= {(host, helper) for host in hosts(program, task, side)}
    return found


def have_every_address(cidrs: Sequence[str]) -> bool:
    """If an address is left out, the first one or the one after some range is."""
    networks = [ipaddress.ip_network(cidr) for cidr in cidrs]
    for bits in {network.max_prefixlen for network in networks}:
        found = [(int(each[0]), int(each[-1])) for each in networks if each.max_prefixlen == bits]
        edges = {0, *(last + 1 for _, last in found)} - {1 << bits}
        if all(any(first <= edge <= last for first, last in found) for edge in edges):
            return True
    return False


def closable(program: Program, there: str) -> bool:
    if program.services[there].host_network:
        return False
    for call in program.calls:
        if call.destination != there:
            continue
        if not has_an_address(program, call.source):
            return False
        mine = program.externals[call.source].cidrs if call.source in program.externals else ()
        for other, party in program.externals.items():
            calls_too = any(each[:2] == (other, there) and each.port == call.port for each in program.calls)
            if not calls_too and any(smaller_inside(one, two) for one in party.cidrs for two in mine):
                return False
        for port in program.services[there].ports:
            declared = any(other[:2] == call[:2] and other.port == port for other in program.calls)
            if port.target == call.port.target and not declared:
                return False
    called_from_adms = {str(task.policy.arguments.get("service")).split(":")[0] for task in tasks(program)}
    declared_pairs = {(call.source, call.destination) for call in program.calls}
    redirected = {
        (program.calls[index].source, str(policy.arguments["to"]).split(":")[0])
        for policy in program.policies
        if any(p.name == "to" and p.type.name == "service" for p in policy.kind.parameters)
        for index in policy.calls
    }
    return there not in called_from_adms | {target for _, target in redirected - declared_pairs}


def in_order(program: Program, p: Task, p_place: Place, q: Task, q_place: Place) -> bool:
    """For `p` declared before `q`."""
    if p.destination != q.destination or not set(p.calls) & set(q.calls):
        return True
    if commute(p.policy, q.policy) or not overlap(p.policy, q.policy):
        return True
    return in_turn(p.policy, p_place, q.policy, q_place) or harmless(program, p, q)


def harmless(program: Program, p: Task, q: Task) -> bool:
    """Whether one of the two is a guard that lets every request pass that both meet, and no stranger can tell.

    Its policy has to be one that may be in the network, whatever keeps its decision at this destination from it: a
    caller that it admits passes it in every place.
    """
    senders = {program.calls[index].source for index in set(p.calls) & set(q.calls)}
    for guard, other in ((p, q), (q, p)):
        if NETWORK not in guard.policy.places or not senders <= admitted(guard.policy):
            continue
        apart = any(Side.INGRESS not in task.policy.kind.sides for task in (p, q))
        if not other.open or apart or in_turn(p.policy, INGRESS, q.policy, INGRESS):
            return True
    return False


def in_turn(p: Policy, p_place: Place, q: Policy, q_place: Place) -> bool:
    """Whether every request meets `p` before `q`."""
    for p_end, q_end in itertools.product(p_place.ends, q_place.ends):
        if p_end not in _ends(p) or q_end not in _ends(q):
            continue
        if NETWORK not in (p_end, q_end):
            if not _sides_in_turn(p, Side(p_end), q, Side(q_end)):
                return False
        elif WAY.index(p_end) > WAY.index(q_end):
            return False
    return True


def _ends(policy: Policy) -> set[Place]:
    """Where the policy's kind can be enforced, alone or with the other end."""
    return {Place(side) for side in policy.kind.sides} | ({NETWORK} if policy.kind.network else set())


def _sides_in_turn(p: Policy, p_side: Side, q: Policy, q_side: Side) -> bool:
    if p_side is not q_side:
        return p_side is Side.EGRESS
    p_stage, q_stage = p.kind.sides[p_side], q.kind.sides[q_side]
    if p_stage is q_stage is Stage.ROUTING:
        p_ranks = [RANK[e.verb] for e in p.effects or () if e.verb in RANK]
        q_ranks = [RANK[e.verb] for e in q.effects or () if e.verb in RANK]
        return bool(p_ranks and q_ranks) and max(p_ranks) <= min(q_ranks)
    return p_stage <= q_stage


def commute(p: Policy, q: Policy) -> bool:
    if p.effects is None or q.effects is None:
        return False
    return all(effects_commute(a, b) for a in p.effects for b in q.effects)


def effects_commute(a: Effect, b: Effect) -> bool:
    if a.element is None and b.element is None:
        return b.verb.value in OTHERS[a.verb.value].split()
    if a.element is None:
        a, b = b, a
    if b.element is None:
        row = f"{a.verb.value} {'response' if a.element in RESPONSE else 'request'}"
        return b.verb.value in ABOUT[row].split()
    if a.verb is Verb.READS and b.verb is Verb.READS:
        return True
    if a.element is not b.element:
        return True
    return a.names is not None and b.names is not None and not a.names & b.names


def overlap(p: Policy, q: Policy) -> bool:
    """Tries requests made of the values that the matches name; each match sees its own value of what they write."""
    if p.match is None or q.match is None or p.effects is None or q.effects is None:
        return True
    written = {
        (effect.element.value, name)
        for effect in (*p.effects, *q.effects)
        if effect.verb is Verb.WRITES and effect.element is not None
        for name in (effect.names or {None})
    }
    compared = sorted({(c.field.name, c.field.header or "") for c in (*_comparisons(p.match), *_comparisons(q.match))})
    values: dict[tuple[str, str], list[str | None]] = {}
    for name, header in compared:
        named = [c.value for c in (*_comparisons(p.match), *_comparisons(q.match)) if c.field.name == name]
        longer = [value + "~" for value in named]
        values[(name, header)] = [*named, *longer, "~"]
        if header:
            lists = [
                ",".join(some) for size in range(2, len(named) + 1) for some in itertools.combinations(named, size)
            ]
            values[(name, header)] += [*lists, None]
    free = [key for key in compared if (key[0], key[1] or None) in written or (key[0], None) in written]
    for request in itertools.product(*(values[key] for key in compared)):
        seen = dict(zip(compared, request, strict=True))
        if not _holds(p.match, seen):
            continue
        for other in itertools.product(*(values[key] for key in free)):
            if _holds(q.match, seen | dict(zip(free, other, strict=True))):
                return True
    return False


def _comparisons(match: Match) -> Iterator[Comparison]:
    if isinstance(match, Comparison):
        yield match
    elif isinstance(match, Not):
        yield from _comparisons(match.operand)
    else:
        for operand in match.operands:
            yield from _comparisons(operand)


def _holds(match: Match, request: dict[tuple[str, str], str | None]) -> bool:
    if isinstance(match, Not):
        return not _holds(match.operand, request)
    if isinstance(match, And):
        return all(_holds(operand, request) for operand in match.operands)
    if isinstance(match, Or):
        return any(_holds(operand, request) for operand in match.operands)
    if match.operator is Operator.NOT_EQUALS:
        return not _holds(match._replace(operator=Operator.EQUALS), request)
    value = request[(match.field.name, match.field.header or "")]
    values = [] if value is None else [value, *(value.split(",") if match.field.header else ())]
    if match.operator is Operator.EQUALS:
        return match.value in values
    assert match.operator is Operator.STARTS_WITH, "the oracle evaluates no regular expressions"
    return any(item.startswith(match.value) for item in values)


MAX_ASSIGNMENTS = 20_000


def assignments(program: Program, *, only_possible: bool) -> Iterator[dict[tuple[str, str], Place]]:
    """Every way to give places to decisions; `only_possible` leaves out places that break a rule by themselves."""
    every = tasks(program)
    options = [
        [place for place in offered(task) if not only_possible or not place_broken(program, task, place)]
        for task in every
    ]
    for taken in itertools.product(*options):
        yield dict(zip((task.key for task in every), taken, strict=True))


def values(program: Program, assignment: Assignment, costs: Costs) -> tuple[int, ...]:
    """All levels of the objective."""
    of = figures(program, assignment, costs)
    return tuple(of[metric] for metric in minimized(program, costs))


def best(program: Program, costs: Costs) -> list[tuple[tuple[int, ...], dict[tuple[str, str], Place]]]:
    """All optimal assignments with their values; empty if none is correct."""
    found: list[tuple[tuple[int, ...], dict[tuple[str, str], Place]]] = []
    for assignment in assignments(program, only_possible=True):
        if broken(program, assignment, costs):
            continue
        value = values(program, assignment, costs)
        if not found or value < found[0][0]:
            found = [(value, assignment)]
        elif value == found[0][0]:
            found.append((value, assignment))
    return found


def count(program: Program) -> int:
    """How many assignments there are where no rule forbids a place by itself."""
    product = 1
    for task in tasks(program):
        if not task.policy.kind.both:
            product *= sum(1 for place in offered(task) if not place_broken(program, task, place))
    return product
