"""Conditions: a policy's `when`, and which callers it is about, as predicates of Envoy's matching API.

The same predicates decide at a filter whether it is skipped and in a route table which route is taken.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dsl.match import And, Comparison, Match, Not, Operator, Or
from dsl.program import Policy, Program, Side
from emitters.addresses import Network, peers
from emitters.envoy.names import inside
from emitters.envoy.typed import Json, extension, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from emitters.addresses import Addresses
    from emitters.scope import Hop

Predicate = Json

EVERYWHERE: Final[tuple[Network, ...]] = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
_NOBODY: Final[tuple[Network, ...]] = (ipaddress.ip_network("0.0.0.0/32"),)
HEADER_INPUT: Final = "envoy.type.matcher.v3.HttpRequestHeaderMatchInput"
_INPUTS: Final = "envoy.extensions.matching.common_inputs.network.v3."
_SKIP: Final = extension("skip", "envoy.extensions.filters.common.matcher.action.v3.SkipFilter")


class Callers(NamedTuple):
    """A set of connections by their direct peer address: in `exact`, or in `wide` and not in `excluded`.

    The most specific network says who a peer is: a pod inside an outside party's network is the pod.
    """

    exact: tuple[Network, ...]
    wide: tuple[Network, ...] = ()
    excluded: tuple[Network, ...] = ()

    @property
    def everyone(self) -> bool:
        return self.wide == EVERYWHERE and not self.excluded


class AmbiguousCallersError(Exception):
    """A policy is about one of two outside parties that no address tells apart; carries their names."""

    def __init__(self, meant: str, other: str) -> None:
        self.meant = meant
        self.other = other
        super().__init__(f"{meant} and {other} cannot be told apart")


# ---- predicates ----


def header_predicate(name: str, matcher: Json) -> Predicate:
    """The value of a request header (or `:path`, `:method`) satisfies a `StringMatcher`; a missing one does not."""
    return _single(extension("request-headers", HEADER_INPUT, header_name=name), matcher)


def state_predicate(key: str, value: str) -> Predicate:
    """An object that an outer filter put into the request's filter state has this value."""
    return _single(extension("filter-state", _INPUTS + "FilterStateInput", key=key), {"exact": value})


def _single(source: Json, matcher: Json) -> Predicate:
    return {"single_predicate": {"input": source, "value_match": matcher}}


def all_of(predicates: Sequence[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else {"and_matcher": {"predicate": list(predicates)}}


def any_of(predicates: Sequence[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else {"or_matcher": {"predicate": list(predicates)}}


def negation(predicate: Predicate) -> Predicate:
    inner: Predicate | None = predicate.get("not_matcher")
    return inner if inner is not None else {"not_matcher": predicate}


def cidr(network: Network) -> Json:
    return {"address_prefix": str(network.network_address), "prefix_len": network.prefixlen}


def address_predicate(networks: Sequence[Network], name: str, *, source: str = "DirectSourceIPInput") -> Predicate:
    """The direct peer (or another address) is in one of the networks. With none nobody is: 0.0.0.0 never is a peer."""
    ranges = [cidr(network) for network in networks or _NOBODY]
    return {
        "single_predicate": {
            "input": extension("address", _INPUTS + source),
            "custom_match": extension(
                "networks",
                "envoy.extensions.matching.input_matchers.ip.v3.Ip",
                cidr_ranges=ranges,
                stat_prefix=name,
            ),
        }
    }


def callers_predicate(callers: Callers, name: str) -> Predicate:
    exact = address_predicate(callers.exact, name)
    if not callers.wide:
        return exact
    wide = address_predicate(callers.wide, name)
    if callers.excluded:
        wide = all_of([wide, negation(address_predicate(callers.excluded, name))])
    return any_of([exact, wide]) if callers.exact else wide


# ---- matches ----


def match_predicate(match: Match) -> Predicate:
    """What a `when` says. `path` is without the query; a missing header equals nothing."""
    match match:
        case Comparison():
            return _comparison(match)
        case Not(operand):
            return negation(match_predicate(operand))
        case And(operands):
            return all_of([match_predicate(operand) for operand in operands])
        case Or(operands):
            return any_of([match_predicate(operand) for operand in operands])


def _comparison(comparison: Comparison) -> Predicate:
    field, operator, value = comparison
    if operator is Operator.NOT_EQUALS:
        return negation(_comparison(Comparison(field, Operator.EQUALS, value)))
    if field.name == "path":
        return _path(operator, value)
    name = ":method" if field.name == "method" else inside(field.header or "")
    return header_predicate(name, _string(operator, value))


def _string(operator: Operator, value: str) -> Json:
    if operator is Operator.STARTS_WITH:
        # Envoy refuses an empty prefix; every value begins with it.
        return {"prefix": value} if value else _regex("(?s).*")
    if operator is Operator.MATCHES:
        return _regex(value)
    return {"exact": value}


def _regex(pattern: str) -> Json:
    return {"safe_regex": {"google_re2": {}, "regex": pattern}}


def _path(operator: Operator, value: str) -> Predicate:
    path = ":path"
    if operator is Operator.MATCHES:
        return _path_regex(value)
    if "?" in value or "#" in value:
        # A path without its query holds neither, so nothing begins with or equals this.
        return header_predicate(path, _regex(r"[^\s\S]"))
    if operator is Operator.STARTS_WITH:
        return header_predicate(path, _string(operator, value))
    return any_of([header_predicate(path, {"exact": value}), header_predicate(path, {"prefix": f"{value}?"})])


def _path_regex(regex: str) -> Predicate:
    """A regular expression over the path without its query, which only CEL can see by itself."""
    call: Any = {
        "call_expr": {
            "target": {
                "id": 2,
                "select_expr": {"operand": {"id": 3, "ident_expr": {"name": "request"}}, "field": "url_path"},
            },
            "function": "matches",
            "args": [{"id": 4, "const_expr": {"string_value": rf"\A(?:{regex})\z"}}],
        }
    }
    return {
        "single_predicate": {
            "input": extension("attributes", "xds.type.matcher.v3.HttpAttributesCelMatchInput"),
            "custom_match": extension(
                "path",
                "xds.type.matcher.v3.CelMatcher",
                expr_match={"cel_expr_parsed": {"expr": {"id": 1, **call}}},
            ),
        }
    }


# ---- who is meant ----


def strangers_of(program: Program) -> list[str]:
    """The outside parties that an unknown address may be: those without a `cidr`, unless they are only ever called."""
    calling = {call.source for call in program.calls}
    return [
        name
        for name, external in program.externals.items()
        if not external.cidrs and (name in calling or not external.ports)
    ]


def callers(program: Program, addresses: Addresses, names: frozenset[str], *, strangers: bool) -> Callers:
    """The connections of the named parties; an external that has no `cidr` is everybody who is not known.

    `strangers` says whether unknown addresses are meant besides. Raises `AmbiguousCallersError`.
    """
    unlocated = strangers_of(program)
    meant = [name for name in unlocated if name in names]
    others = [name for name in unlocated if name not in names]
    if meant and others:
        raise AmbiguousCallersError(meant[0], others[0])
    everyone = bool(meant) or (strangers and not others)
    named = {network for name in names for network in peers(program, addresses, name)}
    rest = {
        network
        for name in (*program.services, *program.externals)
        if name not in names
        for network in peers(program, addresses, name)
    } - named
    if everyone:
        # What is named counts even inside a network of somebody who is not.
        exact = {network for network in named if any(_inside(network, other) for other in rest)}
        return Callers(_sorted(exact), EVERYWHERE, _sorted(rest))
    wide = {network for network in named if any(_inside(other, network) for other in rest)}
    excluded = {other for other in rest if any(_inside(other, network) for network in wide)}
    return Callers(_sorted(named - wide), _sorted(wide), _sorted(excluded))


def _inside(inner: Network, outer: Network) -> bool:
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False


def _sorted(networks: Iterable[Network]) -> tuple[Network, ...]:
    return tuple(sorted(networks, key=lambda network: (network.version, network.network_address, network.prefixlen)))


def scope(program: Program, addresses: Addresses, policy: Policy, hop: Hop) -> Callers | None:
    """Which connections of a hop a policy is about; None means all of them. Raises `AmbiguousCallersError`."""
    if hop.side is Side.EGRESS:
        return None
    if policy.open_sources and len(policy.sources) == len(program.services) + len(program.externals):
        return None
    found = callers(program, addresses, policy.sources, strangers=policy.open_sources)
    return None if found.everyone else found


def conditions(program: Program, addresses: Addresses, policy: Policy, hop: Hop) -> list[Predicate]:
    """All that must hold for a policy to apply to a request on its hop. Raises `AmbiguousCallersError`."""
    found = []
    meant = scope(program, addresses, policy, hop)
    if meant is not None:
        found.append(callers_predicate(meant, policy.name))
    if policy.match is not None:
        found.append(match_predicate(policy.match))
    return found


def only_where(predicates: Sequence[Predicate], name: str, config: Json) -> Json:
    """A filter's configuration, wrapped so that the filter is skipped unless all predicates hold."""
    if not predicates:
        return config
    return typed(
        "envoy.extensions.common.matching.v3.ExtensionWithMatcher",
        extension_config={"name": name, "typed_config": config},
        xds_matcher={
            "matcher_list": {
                "matchers": [
                    {"predicate": negation(all_of(predicates)), "on_match": {"action": _SKIP}},
                ]
            }
        },
    )


# ---- which filter chain takes a connection ----


def take(chain: str) -> Json:
    """What is done on a match: the chain of this name takes the connection."""
    return {"action": extension("chain", "google.protobuf.StringValue", value=chain)}


def by_network(source: str, groups: Sequence[tuple[Sequence[Network], Json]], otherwise: Json) -> Json:
    """Choose by an address (`DirectSourceIPInput`, `DestinationIPInput`); the most specific network wins.

    Envoy has a matcher for this very thing, but marks its networks as unfinished and outside its threat model.
    """
    sized: dict[tuple[int, int], list[Network]] = {}
    for index, (found, _) in enumerate(groups):
        for network in found:
            sized.setdefault((-network.prefixlen, index), []).append(network)
    if not sized:
        return otherwise
    matchers = [
        {"predicate": address_predicate(sized[key], "peer", source=source), "on_match": groups[key[1]][1]}
        for key in sorted(sized)
    ]
    return {"matcher": {"matcher_list": {"matchers": matchers}, "on_no_match": otherwise}}


def by_port(choices: Mapping[int, Json], otherwise: Json) -> Json:
    """Choose by the port that was dialled."""
    tree = {
        "input": extension("port", _INPUTS + "DestinationPortInput"),
        "exact_match_map": {"map": {str(port): choices[port] for port in sorted(choices)}},
    }
    return {"matcher_tree": tree, "on_no_match": otherwise}
