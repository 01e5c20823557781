"""Logs, counts and captures of the requests that reach a position in the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.filters.built import Built, stat_name
from emitters.envoy.filters.guards import rbac
from emitters.envoy.typed import Json, extension, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.scope import Hop

_STDOUT: Final = "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
TAP_BYTES: Final = 1 << 20
"""How much of a body a capture keeps, in bytes."""


def set_state(key: str, value: str) -> Json:
    """An entry of `SetFilterState`; `value` is a format string."""
    return {
        "object_key": key,
        "factory_key": "envoy.string",
        "format_string": {"text_format_source": {"inline_string": value}},
    }


def access_log(context: Context, hop: Hop, policy: Policy) -> Built:
    """A line for each request that reaches the filter, with method and path as they were there."""
    key = f"admc.access_log.{policy.name}"
    if context.by_chain:
        # A chain that has the filters of two plans writes the line of the one that a request met.
        key = f"{key}.{policy.arguments['format']}"
    fields = {
        "policy": policy.name,
        "destination": hop.destination,
        "side": hop.side.value,
        "time": "%START_TIME%",
        "method": f"%FILTER_STATE({key}.method:PLAIN)%",
        "path": f"%FILTER_STATE({key}.path:PLAIN)%",
        "status": "%RESPONSE_CODE%",
        "grpc_status": "%GRPC_STATUS_NUMBER%",
        "duration_ms": "%DURATION%",
        "request_bytes": "%BYTES_RECEIVED%",
        "response_bytes": "%BYTES_SENT%",
        "peer": "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%",
        "flags": "%RESPONSE_FLAGS%",
    }
    reached = {
        "extension_filter": extension(
            "reached",
            "envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
            expression=f"'{key}.method' in filter_state",
        )
    }
    log = {**stdout(str(policy.arguments["format"]), fields), "filter": reached}
    states = [set_state(f"{key}.method", "%REQ(:METHOD)%"), set_state(f"{key}.path", "%REQ(:PATH)%")]
    config = typed("envoy.extensions.filters.http.set_filter_state.v3.Config", on_request_headers=states)
    return Built(config, access_log=log)


def stdout(style: str, fields: dict[str, str]) -> Json:
    """A log on standard output: JSON objects, or `name=value` in the same order."""
    if style == "json":
        return extension("stdout", _STDOUT, log_format={"json_format": fields})
    line = " ".join(f"{name}={value}" for name, value in fields.items())
    return extension("stdout", _STDOUT, log_format={"text_format_source": {"inline_string": f"{line}\n"}})


def connection_log(hop: Hop, policy: Policy) -> Json:
    """A line for each connection."""
    return stdout(
        str(policy.arguments["format"]),
        {
            "policy": policy.name,
            "destination": hop.destination,
            "side": hop.side.value,
            "time": "%START_TIME%",
            "duration_ms": "%DURATION%",
            "received_bytes": "%BYTES_RECEIVED%",
            "sent_bytes": "%BYTES_SENT%",
            "peer": "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%",
            "flags": "%RESPONSE_FLAGS%",
        },
    )


def request_count(context: Context, hop: Hop, policy: Policy) -> Built:
    """A filter that admits everybody and counts whom it admits: `...rbac.POLICY/DESTINATION.allowed`."""
    return Built(
        rbac(
            "envoy.extensions.filters.http.rbac.v3.RBAC",
            [{"any": True}],
            rules_stat_prefix=f"{stat_name(policy, hop)}.",
        )
    )


def tap(context: Context, hop: Hop, policy: Policy) -> Built:
    """A file for each request and its response in the directory. A request that never came here leaves none."""
    sink = {
        "format": "JSON_BODY_AS_BYTES",
        "file_per_tap": {"path_prefix": f"{str(policy.arguments['directory']).rstrip('/')}/{policy.name}"},
    }
    config = {
        # An outer reply meets the filter on its way back only: then no request headers were seen.
        "match": {"http_request_headers_match": {"headers": [{"name": ":method", "present_match": True}]}},
        "output_config": {
            "sinks": [sink],
            "max_buffered_rx_bytes": TAP_BYTES,
            "max_buffered_tx_bytes": TAP_BYTES,
        },
    }
    return Built(
        typed("envoy.extensions.filters.http.tap.v3.Tap", common_config={"static_config": config}), on_response=True
    )
