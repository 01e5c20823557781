"""Matchers of a listener, which choose the filter chain of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.matching.predicates import INPUTS, address_predicate
from emitters.envoy.messages.typed import Json, extension

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from emitters.addresses import Network


def take(chain: str) -> Json:
    """The action of a match by which the chain of this name takes the connection."""
    return {"action": extension("chain", "google.protobuf.StringValue", value=chain)}


def by_network(source: str, groups: Sequence[tuple[Sequence[Network], Json]], otherwise: Json) -> Json:
    """A matcher by an address (`DirectSourceIPInput`, `DestinationIPInput`); the most specific network wins.

    Envoy has a matcher for this purpose, but its documentation calls the networks in it unfinished and outside of
    Envoy's threat model.
    """
    sized: dict[tuple[int, int], list[Network]] = {}
    for index, (networks, _) in enumerate(groups):
        for network in networks:
            sized.setdefault((-network.prefixlen, index), []).append(network)
    if not sized:
        return otherwise
    matchers = [
        {"predicate": address_predicate(sized[key], "peer", source=source), "on_match": groups[key[1]][1]}
        for key in sorted(sized)
    ]
    return {"matcher": {"matcher_list": {"matchers": matchers}, "on_no_match": otherwise}}


def by_port(choices: Mapping[int, Json], otherwise: Json) -> Json:
    """A matcher by the port that was dialled."""
    if not choices:
        return {"on_no_match": otherwise}
    tree = {
        "input": extension("port", INPUTS + "DestinationPortInput"),
        "exact_match_map": {"map": {str(port): choices[port] for port in sorted(choices)}},
    }
    return {"matcher_tree": tree, "on_no_match": otherwise}
