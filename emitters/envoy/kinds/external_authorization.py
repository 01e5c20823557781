"""`external_authorization`: another service decides about each request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from dsl.program import Protocol, callee
from emitters.envoy.held_headers import HELD
from emitters.envoy.kinds.interface import CalledService, EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.verdicts import only_verdicts
from emitters.envoy.messages.typed import Json, duration, typed
from emitters.envoy.names import called_cluster, stat_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from dsl.program import Policy, Port, Program
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class ExternalAuthorization(EnvoyKind):
    """Envoy sends the service a gRPC call or an HTTP request, by the protocol of the service's port."""

    service: str
    timeout: int
    fail_open: bool

    replies_with_any_status: ClassVar[bool] = True

    def check(self, context: Context, policy: Policy) -> None:
        if self._port(context.program) is None:
            name, _ = callee(self.service)
            context.refuse(
                "ADM704",
                f"`{policy.name}` asks `{self.service}`, which is no `http` or `grpc` port of `{name}`",
                policy,
                cause="authorization is asked for by a gRPC call or an http request",
                hint=f"give `{name}` an `http` or `grpc` port, or name another service",
            )

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        port = self._port(context.program)
        assert port is not None  # noqa: S101 - see `check`
        by_grpc = port.protocol is Protocol.GRPC
        cluster = called_cluster(self.service)
        return HttpFilter(
            typed(
                "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
                stat_prefix=stat_name(policy, hop),
                transport_api_version="V3",
                failure_mode_allow=self.fail_open or None,
                # The service only decides: the kind declares no effect by which it could change the request.
                decoder_header_mutation_rules={"disallow_all": True},
                allowed_headers={"patterns": [{"safe_regex": {"regex": ".*"}}]},
                **(self._grpc(cluster) if by_grpc else self._http(cluster)),
            ),
            calls=CalledService(cluster, self.service, port, (only_verdicts(),) if by_grpc else ()),
            # No setting of Envoy's filter chooses among the headers of a refusal by gRPC.
            replies_with_any_header=by_grpc,
        )

    def _port(self, program: Program) -> Port | None:
        """The port of `NAME` or `NAME:NUMBER` for a client of http or gRPC."""
        name, number = callee(self.service)
        called = program.services.get(name) or program.externals[name]
        usable = (port for port in called.ports if port.protocol is not Protocol.TCP and number in (None, port.number))
        return next(usable, None)

    def _grpc(self, cluster: str) -> Json:
        # Without an authority Envoy sends the name of the cluster, which has a `/`, and which an ADM refuses.
        named = {"cluster_name": cluster, "authority": callee(self.service)[0]}
        return {"grpc_service": {"envoy_grpc": named, "timeout": duration(self.timeout)}}

    def _http(self, cluster: str) -> Json:
        uri = {"uri": f"http://{callee(self.service)[0]}", "cluster": cluster, "timeout": duration(self.timeout)}
        # The client gets the headers of the service's answer, except those that only an ADM may send.
        own = _without(["x-admc-"])
        shown = {"allowed_client_headers": {"patterns": [{"safe_regex": {"regex": f"(?s){own}"}}]}}
        return {
            "http_service": {"server_uri": uri, "authorization_response": shown},
            # If the request to the service looks like gRPC, Envoy reports its own failures in gRPC, with status 200,
            # and would take that for an admission.
            # The service gets the held header as the client sent it, and not as Envoy has set it (`restore_own`).
            "disallowed_headers": {"patterns": [{"exact": "content-type"}, {"exact": HELD}]},
        }


def _without(prefixes: Collection[str]) -> str:
    """A regular expression for every text that begins with none of some prefixes. RE2 has no negative look-ahead."""
    letters = sorted({prefix[0] for prefix in prefixes})
    ways = [f"[^{re.escape(''.join(letters))}].*"]
    for letter in letters:
        rest = [prefix[1:] for prefix in prefixes if prefix[0] == letter]
        if all(rest):
            ways.append(re.escape(letter) + _without(rest))
    return f"(?:{'|'.join(ways)})?"
