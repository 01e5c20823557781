"""What a policy becomes in a filter chain, before it is named and put in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.messages.typed import Json
    from emitters.hops import Hop


class Built(NamedTuple):
    """One policy's share of a hop. `config` is the typed configuration of its filter."""

    config: Json
    on_response: bool = False
    """Acts on the response, and so must not see a reply that an outer filter made."""
    in_route: Json | None = None
    """Configuration that Envoy takes from the route, under the filter's name."""
    access_log: Json | None = None
    """A log of the connection manager that belongs to the filter."""
    calls: str | None = None
    """A service that the filter itself calls, by the cluster `filters.built.side_cluster(name)`."""
    waits_for_body: bool = False
    """Lets nothing on before the whole body is there: so it cannot wait for a tunnel, which has no end."""
    behind: Json | None = None
    """Typed configuration of a second filter, right behind the first and under the same conditions."""
    writes_request: bool = False
    """Changes what a route may match on."""


def stat_name(policy: Policy, hop: Hop) -> str:
    """The name under which a policy counts: `search_quota/search`."""
    return f"{policy.name}/{hop.destination}"


def side_cluster(service: str) -> str:
    """Name of the cluster by which filters call a service."""
    return f"call/{service}"
