"""A trial of new filter configurations, in a listener that no request reaches.

Envoy accepts a listener whose new filter has a configuration that it rejects, and then answers every request with 500.
So each ADM with an xDS server has one more listener, which never changes and which no client can reach. Its only filter
before the router is an extension that contains the configurations of all other HTTP filters. The server sends that
extension first, and the other resources after Envoy has acknowledged the extension (docs/xds.md). If Envoy rejects a
configuration, all resources stay as they are.

    extensions of an ADM -> one listener + one extension
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from emitters.envoy.chains.clusters import ADS
from emitters.envoy.matching.predicates import header_predicate
from emitters.envoy.messages.typed import PREFIX, Json, extension, message, typed
from emitters.envoy.resources import EXTENSION, LISTENER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.message import Message

_COMPOSITE: Final = "envoy.extensions.filters.http.composite.v3."
_NETWORK: Final = f"{PREFIX}envoy.extensions.filters.network."
"""Filters of connections cannot be tried as filters of requests. All of them are TCP proxies without arguments."""
_DELEGATE: Final = "envoy.extensions.common.matching.v3.ExtensionWithMatcher"


@cache
def listener(name: str) -> Message:
    """The listener of the trial, equal for every ADM and plan. No hop has its name: names of hops begin with a side."""
    manager = extension(
        "http",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=name,
        route_config={"name": name},
        http_filters=[
            {"name": name, "config_discovery": {"config_source": ADS, "type_urls": [PREFIX + _DELEGATE]}},
            extension("router", "envoy.extensions.filters.http.router.v3.Router"),
        ],
    )
    return message(
        LISTENER,
        {
            "name": name,
            # A listener has to have an address. This one does not listen at it.
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}},
            "bind_to_port": False,
            "filter_chains": [{"filters": [manager]}],
        },
    )


def tried(name: str, extensions: Iterable[Message]) -> Message:
    """The extension that contains the configurations of other HTTP filters, of which none is ever chosen."""
    from google.protobuf import json_format

    actions = [
        extension(
            config.name,  # type: ignore[attr-defined]
            _COMPOSITE + "ExecuteFilterAction",
            typed_config=json_format.MessageToDict(config, preserving_proto_field_name=True),
        )
        for config in extensions
        if not config.typed_config.type_url.startswith(_NETWORK)  # type: ignore[attr-defined]
    ]
    actions.append(extension("nothing", "envoy.extensions.filters.common.matcher.action.v3.SkipFilter"))
    matchers: list[Json] = [
        {"predicate": header_predicate(name, {"exact": "1"}), "on_match": {"action": action}} for action in actions
    ]
    delegate = typed(
        _DELEGATE,
        extension_config=extension("composite", _COMPOSITE + "Composite"),
        xds_matcher={"matcher_list": {"matchers": matchers}},
    )
    return message(EXTENSION, {"name": name, "typed_config": delegate})
