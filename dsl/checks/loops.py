"""Callouts and copies that cause further callouts and copies without end.

A callout is a request that an ADM makes itself, such as the one of `external_authorization`. A callout does not pass
the filters of its own ADM, so it meets only the policies at the ingress of the service that it calls. If one of these
policies makes callouts too, the callout causes another one. Rules R4 and R7 keep such a policy at that ingress in every
placement, so the program alone shows whether callouts end.

The program does not show which calls a service makes for each callout or copy that it receives. If declared calls lead
from that service back into the scope of the policy, there may be a loop, and the program gets a warning.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from dsl.checks.disjoint import disjoint
from dsl.checks.narrowing import without
from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS, Diagnostics, Related, Severity
from dsl.match import And, Comparison, Field, Match, Operator
from dsl.program import Policy, Port, Protocol, Side, Verb, callee

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dsl.graph.application import Application
    from dsl.syntax import tree


class _Callout(NamedTuple):
    """A callout to `asked`, made for a policy at the ingress of `at`. The service `at` receives callouts itself."""

    policy: int
    at: str
    asked: str
    port: int


def check_callouts(
    application: Application,
    policies: Sequence[Policy],
    scopes: Mapping[str, tree.Scope],
    diagnostics: Diagnostics,
) -> None:
    """Refuses policies whose callouts cause further callouts without end."""
    questions = _CalloutGraph(application, policies)
    left: dict[int, list[Sequence[_Callout]]] = {}
    for ring in questions.rings(MAX_DIAGNOSTICS):
        left.setdefault(ring[0].policy, []).append(ring)
    for position in sorted(left):
        _refuse(application, policies, position, left[position], scopes, diagnostics)


def callouts(application: Application, policy: Policy) -> tuple[tuple[str, Port], ...]:
    """Services and externals, with the port, to which an ADM makes callouts for a policy. Copies and splits are not
    callouts."""
    if _forwards(policy):
        return ()
    endpoints = []
    for name, number in callees(policy):
        port = next((port for port in application.ports(name) if number in (None, port.number)), None)
        if port is not None:
            endpoints.append((name, port))
    return tuple(endpoints)


def _forwards(policy: Policy) -> bool:
    return bool({effect.verb for effect in policy.effects or ()} & {Verb.COPIES, Verb.ROUTES})


def callees(policy: Policy) -> Iterator[tuple[str, int | None]]:
    """Names of the services and externals in a policy's arguments, alone or in lists, each with its port if one is
    named."""
    for parameter in policy.kind.parameters:
        value = policy.arguments[parameter.name]
        listed = parameter.type.element is not None and parameter.type.element.name == "service"
        if parameter.type.name == "service" and value is not None:
            yield callee(value)
        elif listed and isinstance(value, tuple):
            yield from (callee(item) for item in value if isinstance(item, str))


class _CalloutGraph:
    """Which callout causes which other callouts. Edges are computed on demand: a search for cycles needs only
    few of the edges of a large application."""

    def __init__(self, application: Application, policies: Sequence[Policy]) -> None:
        self.application = application
        self.policies = policies
        self.asked = {
            position: endpoints
            for position, policy in enumerate(policies)
            if (endpoints := callouts(application, policy))
        }
        helpers = {name for endpoints in self.asked.values() for name, _ in endpoints if name in application.services}
        self.at: dict[str, list[int]] = {}
        for position in self.asked:
            policy = policies[position]
            if Side.INGRESS in policy.sides and (policy.open_sources or not helpers.isdisjoint(policy.sources)):
                for name in sorted(helpers.intersection(policy.destinations)):
                    self.at.setdefault(name, []).append(position)
        edges = {
            name: sorted({helper for p in positions for helper, _ in self.asked[p]})
            for name, positions in self.at.items()
        }
        self.components = _components(
            {name: [other for other in reached if other in edges] for name, reached in edges.items()}
        )

    def rings(self, most: int) -> Iterator[Sequence[_Callout]]:
        """Cycles of callouts, at most `most` of those with several nodes. Each begins with a node whose policy has to
        leave out the node's service `at`; without the first nodes of all cycles, none remains."""
        nodes = [
            _Callout(position, name, helper, port.number)
            for name, positions in self.at.items()
            for position in positions
            for helper, port in self.asked[position]
            if self.components.get(name) == self.components.get(helper)
        ]
        gone = set()
        for node in nodes:
            if node.at == node.asked and node in self.following(node):
                gone.add(node)
                yield (node,)
        for _ in range(most):
            ring = self._ring(nodes, gone)
            if not ring:
                return
            # Preferably, a policy that also has other destinations has to change; otherwise the last policy.
            first = max(ring, key=lambda node: (len(self.policies[node.policy].destinations) > 1, node))
            gone.add(first)
            at = ring.index(first)
            yield (*ring[at:], *ring[:at])

    def following(self, node: _Callout) -> Iterator[_Callout]:
        """The callouts that the callout `node` causes."""
        policy = self.policies[node.policy]
        port = next(port for name, port in self.asked[node.policy] if (name, port.number) == node[2:])
        question = _callout_match(policy, port)
        for other in self.at.get(node.asked, ()):
            before = [earlier for earlier in self.policies[:other] if node.asked in earlier.destinations]
            if _covers(self.application, self.policies[other], node.at, node.asked, port, question, before):
                for helper, number in self.asked[other]:
                    if self.components.get(helper) == self.components[node.asked]:
                        yield _Callout(other, node.asked, helper, number.number)

    def _ring(self, nodes: Iterable[_Callout], gone: set[_Callout]) -> list[_Callout]:
        """The nodes of one cycle, in order; empty if there is none."""
        seen: set[_Callout] = set(gone)
        for start in nodes:
            path = [] if start in seen else [start]
            rest = [self.following(start)]
            on = set(path)
            while path:
                seen.add(path[-1])
                after = next((node for node in rest[-1] if node in on or node not in seen), None)
                if after is None:
                    on.discard(path.pop())
                    rest.pop()
                elif after in on:
                    return path[path.index(after) :]
                else:
                    path.append(after)
                    rest.append(self.following(after))
                    on.add(after)
        return []


def _callout_match(policy: Policy, port: Port) -> Match | None:
    """A match that every callout to this port satisfies; None if its requests are unknown.

    Over HTTP, a callout has the path of the request that it is about.
    """
    method = policy.kind.traits.grpc_method
    if method is None or port.protocol is not Protocol.GRPC:
        return None
    path = Comparison(Field("path"), Operator.EQUALS, method)
    return And((path, Comparison(Field("method"), Operator.EQUALS, "POST")))


def _covers(
    application: Application,
    policy: Policy,
    caller: str,
    helper: str,
    port: Port,
    question: Match | None,
    before: Sequence[Policy],
) -> bool:
    """Whether a callout of the ADM of `caller` to a port of `helper` is in the scope of `policy`.

    `before`: policies that the callout may meet before `policy`; they may write a field that the match compares.
    """
    if policy.ports is not None and port.number not in policy.ports:
        return False
    if port.protocol not in policy.kind.protocols or (policy.match is not None and port.protocol is Protocol.TCP):
        return False
    if policy.match is not None and question is not None and disjoint(policy.match, question, before):
        return False
    if caller == helper and policy.open_sources:
        # A call of a service to itself may have the address of its node, which no `except` can exclude.
        return True
    if caller not in policy.sources:
        return False
    if policy.open_sources or policy.kind.guard:
        return True
    calls = (application.calls[index] for index in application.calls_to.get(helper, ()))
    return any(call.source == caller and call.port.number == port.number for call in calls)


def _refuse(
    application: Application,
    policies: Sequence[Policy],
    position: int,
    rings: Sequence[Sequence[_Callout]],
    scopes: Mapping[str, tree.Scope],
    diagnostics: Diagnostics,
) -> None:
    policy = policies[position]
    ring = rings[0]
    name = ring[0].at
    names = sorted({path[0].at for path in rings})
    listed = ", ".join(f"`{service}`" for service in names)
    related = [Related(application.services[name].span, f"`{name}` is declared here")]
    if len(ring) == 1:
        message = f"the requests by which `{policy.name}` asks `{name}` cause more of such requests, without end"
        cause = (
            f"such a request is a call to `{name}`, and calls to `{name}` are in the scope of `{policy.name}`, "
            "so each request causes another one"
        )
    else:
        others = dict.fromkeys(policies[node.policy].name for node in ring[1:])
        message = f"the requests by which `{policy.name}` and {_and(others)} ask services cause each other, without end"
        if policy.name in others:
            message = f"the requests by which `{policy.name}` asks services cause more of such requests, without end"
        asks = [f"the ADM of `{node.at}` asks `{node.asked}` for `{policies[node.policy].name}`" for node in ring]
        cause = f"{', '.join(asks)}; each of these requests is a call in the scope of the next policy"
        related = [
            Related(policies[node.policy].span, f"`{policies[node.policy].name}` is here")
            for node in ring[1:]
            if node.policy != position
        ]
    fixed_scope = without(scopes.get(policy.name), (), names) if len(policy.destinations) > len(names) else None
    hint = (
        f"leave {listed} out: `{fixed_scope}`"
        if fixed_scope
        else f"leave {listed} out of its destinations with `except`"
    )
    if len(policy.destinations) == len(names):
        hint = f"remove `{policy.name}`, or let it ask a service that is not in its scope"
    diagnostics.error("ADM420", message, policy.span, cause=cause, hint=hint, related=tuple(related))


def _and(names: Iterable[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def warn_of_callback_paths(
    application: Application,
    policies: Sequence[Policy],
    scopes: Mapping[str, tree.Scope],
    diagnostics: Diagnostics,
) -> None:
    """Warns if the calls of a service that receives callouts or copies lead back into the scope of the policy."""
    helped = [(policy, sorted({name for name, _ in callees(policy)})) for policy in policies if policy.calls]
    helped = [(policy, names) for policy, names in helped if names]
    if not helped:
        return
    edges = _edges(application, helped)
    groups = _components(edges)
    for policy, names in helped:
        for name in names:
            group = groups.get(name)
            sources = {application.calls[index].source for index in policy.calls}
            back = sorted(source for source in sources if group is not None and groups.get(source) == group)
            if back and not (_forwards(policy) and name in back):  # that is an error (`check_targets`)
                if diagnostics.full_of(Severity.WARNING):
                    diagnostics.drop(Severity.WARNING)  # no search for a path that no message shows
                    break
                _warn(application, policy, name, back, edges, scopes, diagnostics)
                break


def _edges(application: Application, helped: Iterable[tuple[Policy, Sequence[str]]]) -> dict[str, list[str]]:
    """Service -> the services that receive a request whenever it receives one, if each service makes all its calls."""
    edges: dict[str, dict[str, None]] = {name: {} for name in application.services}
    for call in application.calls:
        if call.source in edges and call.destination in edges:
            edges[call.source][call.destination] = None
    for policy, names in helped:
        for source in {application.calls[index].source for index in policy.calls}:
            if source in edges:
                edges[source].update((name, None) for name in names if name in edges)
    return {name: sorted(reached) for name, reached in edges.items()}


def _components(edges: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Strongly connected components, as a number for each service (Kosaraju's algorithm)."""
    done: list[str] = []
    seen: set[str] = set()
    for start in edges:
        walk = [] if start in seen else [(start, iter(edges[start]))]
        seen.add(start)
        while walk:
            name, rest = walk[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                done.append(name)
                walk.pop()
            else:
                seen.add(following)
                walk.append((following, iter(edges[following])))
    back: dict[str, list[str]] = {}
    for name, reached in edges.items():
        for other in reached:
            back.setdefault(other, []).append(name)
    groups: dict[str, int] = {}
    for start in reversed(done):
        if start not in groups:
            groups[start] = number = len(groups)
            stack = [start]
            while stack:
                for other in back.get(stack.pop(), ()):
                    if other not in groups:
                        groups[other] = number
                        stack.append(other)
    return groups


def _path(edges: Mapping[str, Sequence[str]], start: str, ends: frozenset[str]) -> list[str]:
    """A shortest path from a service to one of `ends`."""
    before: dict[str, str] = {}
    layer = [start]
    while layer and not ends.intersection(layer):
        reached = {after: name for name in reversed(layer) for after in reversed(edges[name]) if after not in before}
        reached.pop(start, None)
        before.update(reached)
        layer = sorted(reached)
    path = [min(ends.intersection(layer))]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]


def _warn(
    application: Application,
    policy: Policy,
    helper: str,
    back: Sequence[str],
    edges: Mapping[str, Sequence[str]],
    scopes: Mapping[str, tree.Scope],
    diagnostics: Diagnostics,
) -> None:
    path = _path(edges, helper, frozenset(back))
    call = next(application.calls[index] for index in policy.calls if application.calls[index].source == path[-1])
    steps = [f"`{one}` calls `{other}`" for one, other in pairwise((*path, call.destination))]
    steps = [*steps[:2], "...", steps[-1]] if len(steps) > 4 else steps
    fixed_scope = without(scopes.get(policy.name), back, ())
    listed = _and(back[:3]) if len(back) <= 3 else ", ".join(f"`{name}`" for name in back[:3]) + " and others"
    hint = (
        f"leave the calls of {listed} out: `{fixed_scope}`"
        if fixed_scope
        else f"leave the calls of {listed} out of the scope"
    )
    if all(application.calls[index].source in back for index in policy.calls):
        hint = f"remove one of these calls if it is not made, or remove `{policy.name}`"
    verb = "sends requests to" if _forwards(policy) else "asks"
    diagnostics.warning(
        "ADM422",
        f"`{policy.name}` {verb} `{helper}`, whose own calls lead back into its scope",
        policy.span,
        cause=f"{', '.join(steps)}; the last of these calls is in the scope, so it causes one more request to "
        f"`{helper}`: if each service makes its call for each request, the requests never end",
        hint=hint,
        related=(Related(call.span, "the call in scope is declared here"),),
    )
