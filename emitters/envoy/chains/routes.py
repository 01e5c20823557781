"""Route tables: timeouts, retries, copies and splits, and the choice of a cluster.

In Envoy, exactly one route applies to a request. So policies whose matches can hold together become a cross product:
the routes of each set of matches, the largest sets first. The first set that fits has exactly the matches that hold.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dsl.checks.disjoint import disjoint
from dsl.program import Protocol, Side, Stage
from emitters.envoy.chains.clusters import needs_endpoints
from emitters.envoy.failure_marks import FAILED
from emitters.envoy.held_headers import RATE_LIMITED, ROUTE, VERSION, Version, none_leaves, restore
from emitters.envoy.kinds.interface import RouteParts
from emitters.envoy.kinds.registry import arguments_of, class_of
from emitters.envoy.matching.callers import callers_in_scope, conditions, covers_all_callers
from emitters.envoy.matching.predicates import HEADER_INPUT, Predicate, all_of, header_predicate, only_where
from emitters.envoy.messages.typed import PREFIX, Json, duration, extension, typed
from emitters.envoy.names import filter_name, target_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.match import Match
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

MAX_ROUTES: Final = 256
"""Most sets of matches of one hop, each with routes of its own: the matches of its policies multiply."""
RETRY_BYTES: Final = 64 << 20
"""Most bytes of a request's body that are kept for another attempt. A request with a longer body is sent once."""
_EVERY: Final = 1_000_000
CONNECT: Final = "CONNECT"
_NO_CONNECT: Final[Json] = {"match": {"connect_matcher": {}}, "direct_response": {"status": 405}}
"""The route of a CONNECT. Many servers answer 200 to any method, and read the following bytes as further requests,
which would meet no policy inside a tunnel. A CONNECT passes the filters first, which may count, log or refuse it."""


class ClusterVariant(NamedTuple):
    """A cluster of a route table, with the cluster-stage policies that distinguish it from others."""

    name: str
    policies: tuple[Policy, ...]
    original: bool


class RouteTable(NamedTuple):
    """The route table of one hop, and the clusters that it names."""

    config: Json
    clusters: tuple[ClusterVariant, ...]
    shares: tuple[str, ...]
    """Services that get a share of the requests."""
    marks: tuple[Json, ...]
    """Filters (`TypedExtensionConfig`) that evaluate conditions which a table cannot, and set headers for the table."""
    matches: bool
    """Whether the table chooses by the matches or callers of policies."""


class _Group(NamedTuple):
    """Policies that hold under the same conditions."""

    policies: list[Policy]
    needed: list[Predicate]
    match: Match | None


def routed(hop: Hop) -> tuple[Policy, ...]:
    """The policies of a hop that work in its routes or clusters."""
    return tuple(policy for policy in hop.policies if hop.stage(policy) in (Stage.ROUTING, Stage.CLUSTER))


def copied_to(hop: Hop) -> tuple[str, ...]:
    """Services that copies of a hop's requests go to."""
    return tuple(sorted(set(filter(None, (arguments_of(policy).copies_to() for policy in hop.policies)))))


def table(context: Context, hop: Hop, per_route: dict[str, Json]) -> RouteTable:
    """Routes for every set of policies that can hold together. `per_route`: configuration of filters, by name."""
    always: list[Policy] = []
    sometimes: dict[str, _Group] = {}
    for policy in routed(hop):
        needed = conditions(context, policy, hop)
        meant = callers_in_scope(context, policy, hop)
        if not needed:
            always.append(policy)
            continue
        key = repr((meant, policy.match))
        sometimes.setdefault(key, _Group([], needed, policy.match)).policies.append(policy)
    groups = list(sometimes.values())
    marks = []
    headers = []
    for index, group in enumerate(groups):
        if not all(map(_headers_only, group.needed)):
            # The header has the name of the policy and not of its place: a table changes later than its filters, and
            # both must agree.
            header = ROUTE + hashlib.sha256(filter_name(hop.name, group.policies[0]).encode()).hexdigest()[:8]
            headers.append(header)
            marks.append(_mark(hop, group.policies[0], group.needed, header))
            groups[index] = group._replace(needed=[header_predicate(header, {"exact": "1"})])
    # `check` has counted the sets.
    chosen = _sets(groups, always)
    clusters: dict[str, ClusterVariant] = {}
    shares: set[str] = set()
    order = {policy.name: index for index, policy in enumerate(hop.policies)}
    matchers = []
    fallback: Json = {}
    for members in chosen:
        policies = sorted(
            (*always, *(policy for index in members for policy in groups[index].policies)), key=lambda p: order[p.name]
        )
        predicates = [predicate for index in members for predicate in groups[index].needed]
        leaf = _routes(context, hop, policies, clusters, shares)
        if predicates:
            action = extension("route", "envoy.config.route.v3.RouteList", routes=leaf)
            matchers.append({"predicate": all_of(predicates), "on_match": {"action": action}})
        else:
            fallback = {"routes": leaf}
    # But for `headers`, this does not depend on the policies: during a rollout, one virtual host has the routes of two
    # plans.
    removed = {"response_headers_to_remove": [FAILED, RATE_LIMITED], **none_leaves(headers)}
    host: Json = {"name": hop.name, "domains": ["*"], **removed}
    if per_route:
        host["typed_per_filter_config"] = per_route
    if matchers:
        rest = extension("route", "envoy.config.route.v3.RouteList", **fallback)
        host["matcher"] = {"matcher_list": {"matchers": matchers}, "on_no_match": {"action": rest}}
    else:
        host |= fallback
    config = {"name": hop.name, "virtual_hosts": [host]}
    return RouteTable(config, tuple(clusters.values()), tuple(sorted(shares)), tuple(marks), bool(matchers))


def check(context: Context, hop: Hop) -> None:
    """Reports matches that multiply to too many routes. This needs no addresses."""
    always: list[Policy] = []
    sometimes: dict[object, _Group] = {}
    for policy in routed(hop):
        anyone = hop.side is Side.EGRESS or covers_all_callers(context.program, policy)
        if anyone and policy.match is None:
            always.append(policy)
            continue
        key = (None if anyone else (policy.sources, policy.open_sources, id(policy.home)), policy.match)
        sometimes.setdefault(key, _Group([], [], policy.match)).policies.append(policy)
    groups = list(sometimes.values())
    if 2 ** len(groups) > MAX_ROUTES and len(_sets(groups, always)) > MAX_ROUTES:
        _too_many(context, hop, groups)


def _headers_only(predicate: Any) -> bool:
    """Whether a predicate is about headers alone: Envoy's route tables can match on nothing else."""
    if isinstance(predicate, dict):
        source = predicate.get("input")
        if source is not None:
            return bool(source["typed_config"]["@type"] == f"{PREFIX}{HEADER_INPUT}")
        return all(map(_headers_only, predicate.values()))
    if isinstance(predicate, list):
        return all(map(_headers_only, predicate))
    return True


def _mark(hop: Hop, policy: Policy, needed: Sequence[Predicate], header: str) -> Json:
    """A filter that sets a header where predicates hold."""
    append = {"header": {"key": header, "value": "1"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    config = typed(
        "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        mutations={"request_mutations": [{"append": append}]},
    )
    return {"name": filter_name(hop.name, policy), "typed_config": only_where(needed, policy.name, config)}


def copy_versions(hop: Hop) -> tuple[Version | None, ...]:
    """The versions of HTTP in which a hop makes copies, each with routes of its own: a copy has no caller whose version
    Envoy could keep. gRPC is HTTP/2. A hop without copies has the single version None."""
    if not copied_to(hop):
        return (None,)
    return (Version.TWO,) if hop.port.protocol is Protocol.GRPC else (Version.TWO, Version.ONE)


def _routes(
    context: Context, hop: Hop, policies: Sequence[Policy], clusters: dict[str, ClusterVariant], shares: set[str]
) -> list[Json]:
    """The routes of one set of policies: a single one, or one for each version in which the hop makes copies."""
    copies = any(arguments_of(policy).copies_to() is not None for policy in policies)
    versions = copy_versions(hop) if copies else (None,)
    routes: list[Json] = []
    for index, version in enumerate(versions):
        told = {"headers": [{"name": VERSION, "string_match": {"exact": version}}]} if versions[index + 1 :] else {}
        route = _route(context, hop, policies, clusters, shares, version)
        # To send a body again, Envoy has to keep it; by default it keeps 1 MiB.
        kept: Json = {"request_body_buffer_limit": RETRY_BYTES} if "retry_policy" in route else {}
        routes.append({"match": {"prefix": "", **told}, "route": route, **restore(), **kept})
    return [_NO_CONNECT, *routes]


def _sets(groups: Sequence[_Group], always: Sequence[Policy]) -> list[tuple[int, ...]]:
    """Every set of matches that can hold together, largest first, at last the empty one; of too many, only a part.

    Two policies of one exclusive kind never hold together: the resolver has checked that.
    """
    usual = {policy.kind.name for policy in always if policy.kind.exclusive}
    kinds = [{policy.kind.name for policy in group.policies if policy.kind.exclusive} for group in groups]
    possible = [index for index in range(len(groups)) if not kinds[index] & usual]
    sets: list[tuple[int, ...]] = []

    def extend(members: tuple[int, ...], candidates: list[int]) -> None:
        if len(sets) > MAX_ROUTES:
            return
        sets.append(members)
        for place, index in enumerate(candidates):
            rest = [
                other
                for other in candidates[place + 1 :]
                if not kinds[index] & kinds[other] and not disjoint(groups[index].match, groups[other].match)
            ]
            extend((*members, index), rest)

    extend((), possible)
    return sorted(sets, key=lambda members: (-len(members), members))


def _too_many(context: Context, hop: Hop, groups: Sequence[tuple[list[Policy], list[Predicate], Match | None]]) -> None:
    first = groups[-1][0][0]
    names = ", ".join(f"`{policy.name}`" for group in groups for policy in group[0])
    context.refuse(
        "ADM701",
        f"the matches of {names} on calls to `{hop.destination}` need more than {MAX_ROUTES} routes",
        first,
        cause="Envoy takes one route for a request, so matches that can hold together need one for each set of them",
        hint="use fewer different matches on these policies, or make them exclude one another (`path == ...`)",
    )


def _route(
    context: Context,
    hop: Hop,
    policies: Sequence[Policy],
    clusters: dict[str, ClusterVariant],
    shares: set[str],
    version: Version | None,
) -> Json:
    parts = RouteParts(hop, version)
    for policy in policies:
        arguments_of(policy).add_to_route(parts)
    stay = _variant(context, hop, policies)
    clusters.setdefault(stay.name, stay)
    # No maximum duration of streams: if a route has one, Envoy ignores the timeout of the route.
    route: Json = {"timeout": "0s", "idle_timeout": "0s"}
    # An HTTP/2 request may also name CONNECT as the protocol of an upgrade, and then has a path.
    route["upgrade_configs"] = [{"upgrade_type": CONNECT, "enabled": False}]
    if parts.shares:
        shares.update(service for service, _ in parts.shares)
        route["weighted_clusters"] = {"clusters": _weights(hop, stay.name, parts.shares)}
    else:
        route["cluster"] = stay.name
    if parts.mirrors:
        route["request_mirror_policies"] = parts.mirrors
    if parts.hash_policies:
        route["hash_policy"] = parts.hash_policies
    if parts.timeouts:
        route["timeout"] = duration(min(parts.timeouts))
    if parts.retry is not None:
        attempt = {"per_try_timeout": duration(min(parts.attempt_timeouts))} if parts.attempt_timeouts else {}
        route["retry_policy"] = {**parts.retry, **attempt}
    return route


def _variant(context: Context, hop: Hop, policies: Sequence[Policy]) -> ClusterVariant:
    here = tuple(policy for policy in policies if hop.stage(policy) is Stage.CLUSTER)
    # Upstream filters and `retry` are in the cluster, too: a chain of other policies has a cluster of its own.
    named = [policy for policy in hop.policies if context.by_chain and _in_cluster(hop, policy)]
    name = "/".join((hop.name, *(policy.name for policy in (*named, *here))))
    return ClusterVariant(name, here, context.mode.redirected and not needs_endpoints(hop, here))


def _in_cluster(hop: Hop, policy: Policy) -> bool:
    return hop.stage(policy) is Stage.UPSTREAM or class_of(policy.kind).repeats_requests


def _weights(hop: Hop, stay: str, shares: Sequence[tuple[str, float]]) -> list[Json]:
    """The first split takes its share of all requests, and each next one its share of the remaining requests."""
    left = _EVERY
    weights = []
    for service, percent in shares:
        share = round(left * float(percent) / 100)
        left -= share
        weights.append({"name": target_cluster(hop, service), "weight": share})
    return [{"name": stay, "weight": left}, *weights]
