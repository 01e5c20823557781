"""The interface of a kind of policy: its configuration in Envoy, and the facts about it that other modules need.

A subclass of `EnvoyKind` declares the parameters of the kind in `dsl/prelude.adm` as attributes with types, under their
names and in their order: an instance holds the arguments of one policy (not that of a `TemplateKind`). A kind overrides
the methods of the places in which it works, and the facts in which it differs from most kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.program import Kind, Policy, Port, Value
    from emitters.envoy.context import Context
    from emitters.envoy.held_headers import Version
    from emitters.envoy.messages.typed import Json
    from emitters.hops import Hop


class CalledService(NamedTuple):
    """A service that a filter calls by itself, and the cluster for these calls."""

    cluster: str
    service: str
    port: Port
    upstream_filters: tuple[Json, ...] = ()
    """Filters of that cluster, which see the filter's own calls."""


class HttpFilter(NamedTuple):
    """The HTTP filter of a policy on a hop, before it gets its name and its place."""

    config: Json
    """The typed configuration of its filter."""
    on_response: bool = False
    """Whether the filter acts on the response, and so must not see a reply that an outer filter made."""
    per_route: Json | None = None
    """Configuration that Envoy takes from the virtual host, under the filter's name."""
    access_log: Json | None = None
    """A log of the connection manager that belongs to the filter."""
    calls: CalledService | None = None
    waits_for_body: bool = False
    """Whether the filter holds a request until its whole body has arrived. The body of a tunnel never ends."""
    second: Json | None = None
    """Typed configuration of a second filter, right behind the first and under the same conditions."""
    writes_request: bool = False
    """Whether the filter changes a part of the request on which a route may match."""
    writes_anything: bool = False
    """Whether the filter is a user's own program or filter: it may write every header, also those that Envoy obeys."""
    replies_with_any_header: bool = False
    """Whether the filter may answer a request itself, with headers that only an ADM may send."""


class NetworkFilter(NamedTuple):
    """The network filter of a policy on a hop that carries connections."""

    filter: Json
    access_log: Json | None = None
    """A log of the TCP proxy that belongs to the filter."""


@dataclass(slots=True)
class RouteParts:
    """One route while it is put together. The policies that hold for its requests add to it, in declared order."""

    hop: Hop
    version: Version | None
    """The version of HTTP for copies of its requests."""
    shares: list[tuple[str, float]] = field(default_factory=list)
    """Services that get a share of the requests, in percent of the requests that earlier shares leave."""
    mirrors: list[Json] = field(default_factory=list)
    hash_policies: list[Json] = field(default_factory=list)
    retry: Json | None = None
    timeouts: list[int] = field(default_factory=list)
    """Microseconds for all attempts together."""
    attempt_timeouts: list[int] = field(default_factory=list)
    """Microseconds for each attempt."""


class EnvoyKind:
    """One kind of policy in Envoy. Methods get the policy for its name and scope; its arguments are attributes."""

    def __init__(self, arguments: Mapping[str, Value]) -> None:
        """`arguments` are those of a policy of this kind. The resolver has checked their types."""
        vars(self).update(arguments)

    repeats_requests: ClassVar[bool] = False
    """Whether its routes repeat failed requests."""
    needs_endpoints: ClassVar[bool] = False
    """Whether the ADM at egress chooses the endpoint, instead of keeping the address that was dialled."""
    shares_connection_pools: ClassVar[bool] = False
    """Whether its cluster has one connection pool for all downstream connections, and not one for each."""
    limit_shared_by_replicas: ClassVar[bool] = False
    """Whether its filter divides a limit by the size of the ADM's own cluster."""
    replies_with_any_status: ClassVar[bool] = False
    """Whether its filter may answer a request itself, with a status that is not known here."""

    @classmethod
    def is_kind_of(cls, policy: Policy) -> bool:
        """Whether this class is the kind of a policy."""
        return policy.kind.name == cls.__module__.rpartition(".")[2]

    @classmethod
    def of(cls, policy: Policy) -> Self:
        """The arguments of a policy of this kind."""
        return cls(policy.arguments)

    @classmethod
    def counts_per_port(cls, kind: Kind) -> bool:
        """Whether Envoy keeps one count for each port of a destination, although the policy demands one for all
        ports."""
        return kind.state

    # ---- errors: policies that Envoy cannot express ----

    def check(self, context: Context, policy: Policy) -> None:
        """Reports errors that a policy has wherever it is enforced. Called at most once for a policy and an ADM."""

    def check_hop(self, context: Context, hop: Hop, policy: Policy) -> None:
        """Reports errors of a policy on one hop, with the other policies there or with the replicas of the service."""

    # ---- configuration ----

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        """The filter of a policy on a hop that carries requests."""
        raise NotImplementedError(f"`{policy.kind.name}` is no HTTP filter")

    def network_filter(self, context: Context, hop: Hop, policy: Policy) -> NetworkFilter:
        """The filter of a policy on a hop that carries connections."""
        raise NotImplementedError(f"`{policy.kind.name}` is no network filter")

    def add_to_route(self, route: RouteParts) -> None:
        """Adds the policy to a route of requests for which it holds. Called at the stages `routing` and `cluster`."""

    def add_to_cluster(self, cluster: Json, limits: Json, *, several: bool) -> None:
        """Adds the policy to a cluster for whose connections it holds. Called at the stage `cluster`.

        `limits` are the cluster's thresholds. `several`: the cluster keeps an endpoint if another one is ejected.
        """
        raise NotImplementedError(f"`{type(self).__name__}` does nothing in a cluster")

    # ---- facts about the arguments ----

    def admitted_callers(self) -> frozenset[str] | None:
        """The only callers that pass, for a kind that decides by the caller's name; None for all other kinds."""
        return None

    def may_reply_with(self, status: int) -> bool:
        """Whether its filter may answer a request itself with an HTTP status."""
        return self.replies_with_any_status

    def copies_to(self) -> str | None:
        """The service that gets copies of requests."""
        return None
