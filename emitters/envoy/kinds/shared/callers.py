"""Envoy's filter for permitted callers (RBAC), and callers as its principals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.program import Side
from emitters.addresses.index import EVERYWHERE, Callers
from emitters.envoy.matching.predicates import cidr
from emitters.envoy.messages.typed import Json, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.program import Policy
    from emitters.addresses import Network
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_RBAC: Final = "envoy.extensions.filters.http.rbac.v3.RBAC"
ANY: Final[Json] = {"any": True}
"""The principal that is every caller."""


def principals(context: Context, hop: Hop, policy: Policy, admitted: frozenset[str]) -> list[Json]:
    """The principals that stand for callers by name on a hop."""
    if hop.side is Side.EGRESS:
        return [ANY] if hop.service in admitted else []
    return _principals(context.index.for_policy(policy).callers(admitted, unknown=False))


def _principals(callers: Callers) -> list[Json]:
    if callers.all_peers:
        return [ANY]
    if len(callers.layers) < 2:
        return [principal for layer in callers.layers for principal in _networks(layer)]
    return [_part(layer, inner) for layer, inner in callers.parts()]


def _part(layer: tuple[Network, ...], inner: tuple[Network, ...]) -> Json:
    """The principal of callers in one of the networks of a layer, and in none of the inner ones."""
    here = ANY if layer == EVERYWHERE else {"or_ids": {"ids": _networks(layer)}}
    if not inner:
        return here
    return {"and_ids": {"ids": [here, {"not_id": {"or_ids": {"ids": _networks(inner)}}}]}}


def _networks(networks: Iterable[Network]) -> list[Json]:
    return [{"direct_remote_ip": cidr(network)} for network in networks]


def rbac(principals: Sequence[Json], stat_prefix: str) -> Json:
    """A filter that only requests of the principals pass."""
    policies: Json = {"admitted": {"permissions": [ANY], "principals": list(principals)}} if principals else {}
    return typed(_RBAC, rules={"action": "ALLOW", "policies": policies}, rules_stat_prefix=f"{stat_prefix}.")
