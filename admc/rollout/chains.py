"""One filter chain with the filters of two plans.

    chain of the old plan, chain of the new one -> Combined

Names by chain (`emitters.envoy.chains.chain_names`) keep the two sets of filters apart. So each plan's filters stay in
their order, and each plan's route table stays as it is but for the filters of the other plan, which it skips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from emitters.envoy.chains.chain_names import chain_name

if TYPE_CHECKING:
    from collections.abc import Iterable

FilterChain = Any
"""`envoy.config.listener.v3.FilterChain`: Envoy's messages are imported where they are used."""
Manager = Any
"""`HttpConnectionManager`."""

_ROUTER: Final = "router"


class Combined(NamedTuple):
    """A filter chain for requests."""

    chain: FilterChain
    table: str
    """The name of its route table."""


def manager_of(chain: FilterChain) -> Manager | None:
    """The HTTP connection manager of a filter chain, if it has one."""
    from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2

    packed = chain.filters[-1].typed_config
    if not packed.Is(http_connection_manager_pb2.HttpConnectionManager.DESCRIPTOR):
        return None
    manager = http_connection_manager_pb2.HttpConnectionManager()
    packed.Unpack(manager)
    return manager


def table_of(chain: FilterChain) -> str:
    """The name of a chain's route table."""
    manager = manager_of(chain)
    assert manager is not None  # noqa: S101
    return str(manager.rds.route_config_name)


def filters_of(chain: FilterChain) -> tuple[str, ...]:
    """The names of all filters of a chain that a route can skip."""
    manager = manager_of(chain)
    return tuple(each.name for each in manager.http_filters if each.name != _ROUTER) if manager is not None else ()


def discovered(chain: FilterChain) -> Iterable[str]:
    """The names of the filter configurations that a chain subscribes to."""
    yield from (each.name for each in chain.filters if each.HasField("config_discovery"))
    manager = manager_of(chain)
    if manager is not None:
        yield from (each.name for each in manager.http_filters if each.HasField("config_discovery"))


def combined(hop: str, old: FilterChain, new: FilterChain) -> Combined:
    """The filters of the old plan, then those of the new one; the new plan's chain where both are the same."""
    if old == new:
        return Combined(new, table_of(new))
    before, after = manager_of(old), manager_of(new)
    assert before is not None  # noqa: S101
    assert after is not None  # noqa: S101
    name = chain_name(hop, [table_of(old), table_of(new)])
    *own, router = after.http_filters
    filters = [*(each for each in before.http_filters if each.name != _ROUTER), *own, router]
    logs = [*before.access_log, *(each for each in after.access_log if each not in before.access_log)]
    replies = before.local_reply_config.mappers
    mappers = [*replies, *(each for each in after.local_reply_config.mappers if each not in replies)]
    result = type(after)()
    result.CopyFrom(after)
    for field in ("http_filters", "access_log", "local_reply_config"):
        result.ClearField(field)
    result.http_filters.extend(filters)
    result.access_log.extend(logs)
    result.local_reply_config.mappers.extend(mappers)
    if not mappers:
        result.ClearField("local_reply_config")
    result.proxy_100_continue = before.proxy_100_continue and after.proxy_100_continue
    # What a table of either plan has to know of a request; it does nothing for the other plan.
    if len(_early(before)) > len(_early(after)):
        result.ClearField("early_header_mutation_extensions")
        result.early_header_mutation_extensions.extend(before.early_header_mutation_extensions)
    result.rds.route_config_name = name
    chain = type(new)()
    chain.CopyFrom(new)
    chain.filters[-1].typed_config.Pack(result, deterministic=True)
    return Combined(chain, name)


def _early(manager: Manager) -> bytes:
    return b"".join(each.SerializeToString(deterministic=True) for each in manager.early_header_mutation_extensions)
