"""`access_log`: a line on standard output for each request or connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter, NetworkFilter
from emitters.envoy.kinds.shared.filter_state import set_state
from emitters.envoy.messages.typed import Json, extension, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_STDOUT: Final = "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
_CONDITION: Final = "envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
_PEER: Final = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"


class AccessLog(EnvoyKind):
    """A filter notes each request that reaches it, with its method and path there, and the log prints the note."""

    format: str

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        key = f"admc.access_log.{policy.name}"
        if context.by_chain:
            # A chain may have the filters of two plans: each writes the lines of its own requests.
            key = f"{key}.{self.format}"
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
            "peer": _PEER,
            "flags": "%RESPONSE_FLAGS%",
        }
        states = [set_state(f"{key}.method", "%REQ(:METHOD)%"), set_state(f"{key}.path", "%REQ(:PATH)%")]
        config = typed("envoy.extensions.filters.http.set_filter_state.v3.Config", on_request_headers=states)
        return HttpFilter(config, access_log=self._log(f"{key}.method", fields))

    def network_filter(self, context: Context, hop: Hop, policy: Policy) -> NetworkFilter:
        key = f"admc.access_log.{policy.name}"
        fields = {
            "policy": policy.name,
            "destination": hop.destination,
            "side": hop.side.value,
            "time": "%START_TIME%",
            "duration_ms": "%DURATION%",
            "received_bytes": "%BYTES_RECEIVED%",
            "sent_bytes": "%BYTES_SENT%",
            "peer": _PEER,
            "flags": "%RESPONSE_FLAGS%",
        }
        return NetworkFilter(
            extension(
                policy.name,
                "envoy.extensions.filters.network.set_filter_state.v3.Config",
                on_new_connection=[set_state(key, "1")],
            ),
            self._log(key, fields),
        )

    def _log(self, key: str, fields: dict[str, str]) -> Json:
        """A line where the filter has set the key: a JSON object, or `name=value` in the same order."""
        if self.format == "json":
            log = extension("stdout", _STDOUT, log_format={"json_format": fields})
        else:
            line = " ".join(f"{name}={value}" for name, value in fields.items())
            log = extension("stdout", _STDOUT, log_format={"text_format_source": {"inline_string": f"{line}\n"}})
        reached = extension("reached", _CONDITION, expression=f"'{key}' in filter_state")
        return {**log, "filter": {"extension_filter": reached}}
