"""Who may call: by address, by token, or by asking another service."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from dsl.program import FileArgument, Protocol, Side, callee
from emitters.addresses.index import EVERYWHERE, Callers
from emitters.envoy.filters.built import Built, side_cluster, stat_name
from emitters.envoy.matching.predicates import cidr
from emitters.envoy.messages.typed import Json, duration, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.program import Policy, Port, Program, Value
    from emitters.addresses import Network
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_RBAC: Final = "envoy.extensions.filters.http.rbac.v3.RBAC"
_ANY: Final[Json] = {"any": True}


def strings(value: Value) -> list[str]:
    """A list argument; the resolver has checked that it is one."""
    assert isinstance(value, tuple)  # noqa: S101
    return [str(item) for item in value]


def admitted(context: Context, hop: Hop, policy: Policy) -> list[Json]:
    """The principals that an `allow` or a `deny` lets pass: with none, nobody passes."""
    if policy.kind.name == "deny":
        return []
    names = frozenset(strings(policy.arguments["callers"]))
    if hop.side is Side.EGRESS:
        return [_ANY] if hop.service in names else []
    return _principals(context.known.of(policy).callers(names, strangers=False))


def _principals(found: Callers) -> list[Json]:
    if found.everyone:
        return [_ANY]
    if len(found.layers) < 2:
        return [principal for layer in found.layers for principal in _networks(layer)]
    return [_part(layer, inner) for layer, inner in found.parts()]


def _part(layer: tuple[Network, ...], inner: tuple[Network, ...]) -> Json:
    """In one of the networks, and in none of the inner ones."""
    here = _ANY if layer == EVERYWHERE else {"or_ids": {"ids": _networks(layer)}}
    if not inner:
        return here
    return {"and_ids": {"ids": [here, {"not_id": {"or_ids": {"ids": _networks(inner)}}}]}}


def _networks(networks: Iterable[Network]) -> list[Json]:
    return [{"direct_remote_ip": cidr(network)} for network in networks]


def rbac(type_name: str, principals: Sequence[Json], **fields: str) -> Json:
    """Only the principals pass."""
    policies: Json = {"admitted": {"permissions": [_ANY], "principals": list(principals)}} if principals else {}
    return typed(type_name, rules={"action": "ALLOW", "policies": policies}, **fields)


def allow(context: Context, hop: Hop, policy: Policy) -> Built:
    return Built(rbac(_RBAC, admitted(context, hop, policy), rules_stat_prefix=f"{stat_name(policy, hop)}."))


deny = allow


def jwt(context: Context, hop: Hop, policy: Policy) -> Built:
    """A request without a valid token of the issuer gets 401. The token goes on to the service unchanged."""
    jwks = policy.arguments["jwks"]
    assert isinstance(jwks, FileArgument)  # noqa: S101 - checked by the resolver
    provider = {
        "issuer": policy.arguments["issuer"],
        "audiences": strings(policy.arguments["audiences"]),
        "local_jwks": {"inline_bytes": base64.b64encode(jwks.content).decode()},
        "forward": True,
        # Said or not, Envoy would also take a token from the query.
        "from_headers": [{"name": "Authorization", "value_prefix": "Bearer "}],
    }
    requirement = {"provider_name": policy.name}
    # Whatever no rule covers passes unchecked, and CONNECT has no path.
    rules = [
        {"match": {"connect_matcher": {}}, "requires": requirement},
        {"match": {"prefix": ""}, "requires": requirement},
    ]
    return Built(
        typed(
            "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
            providers={policy.name: provider},
            rules=rules,
            stat_prefix=stat_name(policy, hop),
        )
    )


def asked_port(program: Program, argument: Value) -> Port | None:
    """The port that `NAME` or `NAME:NUMBER` means to someone who asks by http or gRPC."""
    name, number = callee(argument)
    asked = program.services.get(name) or program.externals[name]
    usable = (port for port in asked.ports if port.protocol is not Protocol.TCP and number in (None, port.number))
    return next(usable, None)


def external_authorization(context: Context, hop: Hop, policy: Policy) -> Built:
    """Ask a service before a request passes, in gRPC or http, as the service's first such port speaks."""
    argument = str(policy.arguments["service"])
    name, _ = callee(argument)
    port = asked_port(context.program, argument)
    if port is None:
        context.refuse(
            "ADM704",
            f"`{policy.name}` asks `{argument}`, which is no `http` or `grpc` port of `{name}`",
            policy,
            cause="authorization is asked for by a gRPC call or an http request",
            hint=f"give `{name}` an `http` or `grpc` port, or name another service",
        )
        return Built({})
    timeout = policy.arguments["timeout"]
    assert isinstance(timeout, int)  # noqa: S101 - checked by the resolver
    cluster = side_cluster(argument)
    asked: Json
    if port.protocol is Protocol.GRPC:
        # Without an authority Envoy sends the name of the cluster. That has a `/`, and an ADM refuses it.
        named = {"cluster_name": cluster, "authority": name}
        asked = {"grpc_service": {"envoy_grpc": named, "timeout": duration(timeout)}}
    else:
        uri = {"uri": f"http://{name}", "cluster": cluster, "timeout": duration(timeout)}
        # What the service answers goes to the client, but not what the proxy adds to that answer.
        shown = {"allowed_client_headers": {"patterns": [{"safe_regex": {"regex": _without("x-envoy-")}}]}}
        asked = {
            "http_service": {"server_uri": uri, "authorization_response": shown},
            # To a question that looks like gRPC Envoy answers its own failures in gRPC, with 200: it would take that
            # for a yes.
            "disallowed_headers": {"patterns": [{"exact": "content-type"}]},
        }
    return Built(
        typed(
            "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
            stat_prefix=stat_name(policy, hop),
            transport_api_version="V3",
            failure_mode_allow=bool(policy.arguments["fail_open"]) or None,
            # It decides; it does not rewrite: its kind declares no such effect.
            decoder_header_mutation_rules={"disallow_all": True},
            allowed_headers={"patterns": [{"safe_regex": {"regex": ".*"}}]},
            **asked,
        ),
        calls=argument,
    )


def _without(prefix: str) -> str:
    """A regular expression (RE2 cannot look ahead) for every text that does not begin with a prefix."""
    ways = [re.escape(prefix[:index]) + f"(?:[^{re.escape(letter)}].*)?" for index, letter in enumerate(prefix)]
    return f"(?s)(?:{'|'.join(ways)})"
