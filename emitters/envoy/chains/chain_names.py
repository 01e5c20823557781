"""Names by chain: a filter chain that changes gets a route table and filter configurations of its own.

    filter chain of a hop -> the same, with names that hold a digest of the chain: `egress/search:8082@1f3a9c02`

Envoy replaces a filter chain for new connections, and keeps the older version for open connections. With plain names,
both versions would share one route table and one configuration of each filter. With names by chain, the older version
keeps its own ones, unchanged, until its last connection is closed. Envoy then ends its subscription to these names,
and by that the server sees that no older connection remains. Parts that are not in the chain itself (arguments,
addresses, routes) change under the same name, and so reach open connections.

Only ADMs that ask an xDS server need this. A static bootstrap has plain names: all of it is replaced at once, by a new
process. Names of statistics are plain in both, so that counters go on.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from emitters.envoy.chains.clusters import ADS
from emitters.envoy.messages.typed import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emitters.envoy.chains.http import HttpChain

WAITING: Final[Json] = {**ADS, "initial_fetch_timeout": "0s"}
"""A source for which Envoy waits without limit. By default, it uses a new chain after 15 s even without its route
table, and answers 404."""


def chain_name(hop: str, content: object) -> str:
    """The name of a hop's filter chain. `content` is its JSON, without the parts that Envoy gets by name."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return f"{hop}@{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def by_chain(made: HttpChain, hop: str) -> HttpChain:
    """The filter chain of a hop with names by chain: of its filters, of its route table, and of the filters in it."""
    chain = chain_name(hop, made.manager)

    def renamed(name: str) -> str:
        return chain + name.removeprefix(hop) if name.startswith(f"{hop}/") else name

    config = made.manager["typed_config"]
    filters = [_waiting({**filter_, "name": renamed(filter_["name"])}) for filter_ in config["http_filters"]]
    rds = {"config_source": WAITING, "route_config_name": chain}
    manager = {**made.manager, "typed_config": {**config, "http_filters": filters, "rds": rds}}
    extensions = tuple({**extension, "name": renamed(extension["name"])} for extension in made.extensions)
    hosts = [_settings_renamed(host, renamed) for host in made.table.config["virtual_hosts"]]
    table = made.table._replace(config={**made.table.config, "name": chain, "virtual_hosts": hosts})
    return made._replace(manager=manager, extensions=extensions, table=table)


def discovered_proxy(name: str, filters: Sequence[Json]) -> tuple[tuple[Json, ...], Json]:
    """The network filters of a chain whose last one, the TCP proxy, comes by name; and that proxy as a resource."""
    *others, proxy = filters
    named = chain_name(name, filters)
    config = proxy["typed_config"]
    discovery = {"config_source": WAITING, "type_urls": [config["@type"]]}
    return (*others, {"name": named, "config_discovery": discovery}), {"name": named, "typed_config": config}


def _waiting(filter_: Json) -> Json:
    if "config_discovery" not in filter_:
        return filter_
    return {**filter_, "config_discovery": {**filter_["config_discovery"], "config_source": WAITING}}


def _settings_renamed(host: Any, renamed: Callable[[str], str]) -> Any:
    settings = host.get("typed_per_filter_config")
    if settings is None:
        return host
    return {**host, "typed_per_filter_config": {renamed(name): setting for name, setting in settings.items()}}
