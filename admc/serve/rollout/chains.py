"""One filter chain with the filters of two plans.

    chain of the old plan, chain of the new one -> combined chain

Names by chain (`emitters.envoy.chains.chain_names`) keep the two sets of filters apart. So each plan's filters stay in
their order, and each plan's route table stays as it is but for the filters of the other plan, which it skips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2

from emitters.envoy.chains.chain_names import chain_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_Manager = http_connection_manager_pb2.HttpConnectionManager
_ROUTER: Final = "router"


class HttpChain(NamedTuple):
    """A filter chain that carries requests."""

    chain: Any
    """`envoy.config.listener.v3.FilterChain`."""
    manager: Any
    """Its `HttpConnectionManager`."""

    @classmethod
    def of(cls, chain: Any) -> HttpChain | None:
        """Return None for a chain that carries connections instead of requests."""
        packed = chain.filters[-1].typed_config
        return cls(chain, _Manager.FromString(packed.value)) if packed.Is(_Manager.DESCRIPTOR) else None

    @property
    def table(self) -> str:
        """The name of its route table."""
        return str(self.manager.rds.route_config_name)

    def renamed(self, name: str) -> HttpChain:
        """Return the chain under another name, which its route table and its filters get, too."""
        manager = _Manager()
        manager.CopyFrom(self.manager)
        manager.rds.route_config_name = name
        for http_filter in manager.http_filters:
            http_filter.name = in_chain(http_filter.name, self.table, name)
        return self.with_manager(manager)

    def with_manager(self, manager: Any) -> HttpChain:
        chain = type(self.chain)()
        chain.CopyFrom(self.chain)
        chain.filters[-1].typed_config.Pack(manager, deterministic=True)
        return HttpChain(chain, manager)

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of all filters that a route can skip."""
        return tuple(http_filter.name for http_filter in self.manager.http_filters if http_filter.name != _ROUTER)


def discovered(chain: Any) -> Iterable[str]:
    """The names of the filter configurations that a filter chain subscribes to."""
    http = HttpChain.of(chain)
    filters = (*chain.filters, *(http.manager.http_filters if http is not None else ()))
    return (http_filter.name for http_filter in filters if http_filter.HasField("config_discovery"))


def combined(hop: str, old: HttpChain, new: HttpChain) -> HttpChain:
    """Return a chain with the filters of the old plan, then those of the new plan. Equal chains give the new plan's."""
    if old.chain == new.chain:
        return new
    before, after = old.manager, new.manager
    manager = _Manager()
    manager.CopyFrom(after)
    manager.rds.route_config_name = chain_name(hop, [old.table, new.table])
    _prepend(manager.http_filters, [http_filter for http_filter in before.http_filters if http_filter.name != _ROUTER])
    _prepend(manager.access_log, before.access_log)
    _prepend(manager.local_reply_config.mappers, before.local_reply_config.mappers)
    if not manager.local_reply_config.mappers:
        manager.ClearField("local_reply_config")
    manager.proxy_100_continue = before.proxy_100_continue and after.proxy_100_continue
    # The table of one plan needs these mutations to match a request; they have no effect on the other plan.
    early = max(after.early_header_mutation_extensions, before.early_header_mutation_extensions, key=_size)
    manager.ClearField("early_header_mutation_extensions")
    manager.early_header_mutation_extensions.extend(early)
    return new.with_manager(manager)


def in_chain(filter_name: str, before: str, after: str) -> str:
    """The name of a filter when the chain that it belongs to gets another name."""
    return after + filter_name.removeprefix(before) if filter_name.startswith(f"{before}/") else filter_name


def renamed_table(table: Any, name: str) -> Any:
    """A route table for a chain with another name."""
    result = type(table)()
    result.CopyFrom(table)
    result.name = name
    for host, before in zip(result.virtual_hosts, table.virtual_hosts, strict=True):
        host.typed_per_filter_config.clear()
        for filter_name, settings in before.typed_per_filter_config.items():
            host.typed_per_filter_config[in_chain(filter_name, table.name, name)].CopyFrom(settings)
    return result


def _prepend(field: Any, first: Iterable[Any]) -> None:
    """Put messages in front of a repeated field, and drop their duplicates behind them."""
    first = list(first)
    rest = [message for message in field if message not in first]
    del field[:]
    field.extend(first + rest)


def _size(extensions: Iterable[Any]) -> int:
    return sum(extension.ByteSize() for extension in extensions)
