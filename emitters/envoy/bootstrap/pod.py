"""The files from which every Envoy of a cluster starts: the same ones in the pods of all services.

An Envoy gets its identity on its command line: `--service-node POD --service-cluster SERVICE`. All else comes from the
xDS server, and Envoy waits for it: *started* means configured. Three listeners of the bootstrap are for the kubelet, at
every address of the pod (IPv6 only if pods have it), each at a port of its own:

    GET /ready  at STARTUP_PORT   200 from Envoy itself, as soon as it has its configuration
    GET /probe  at PROBE_PORT     200 or 503, by a health check of the process (`health_checks`)
    GET /drain  at STOP_PORT      the pod ends: Envoy closes the connections of its clients as they answer (`_stop`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.bootstrap import xds_server
from emitters.envoy.bootstrap.bootstrap import BOOTSTRAP, admin, asking, process
from emitters.envoy.chains.chain_names import WAITING
from emitters.envoy.chains.clusters import ADS, CONNECT_TIMEOUT, endpoints
from emitters.envoy.health_checks import PROBE_ANSWERS
from emitters.envoy.held_headers import FRAMING, HOLD, hold
from emitters.envoy.messages.typed import Json, extension, message, to_json, to_yaml
from emitters.envoy.resources import PROBES, SIBLINGS
from emitters.ports import ADMIN_PORT, PROBE_PORT, STARTUP_PORT, STOP_PATH, STOP_PORT

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG_FOLDER: Final = "/run/admc/config"
"""The folder of a pod with the files of `pod_bootstrap` and the authority of the server's certificate."""
AUTHORITY_FILE: Final = f"{CONFIG_FOLDER}/ca.crt"
TOKEN_FILE: Final = "/run/admc/token/token"  # noqa: S105
BOOTSTRAP_FILE: Final = "bootstrap.yaml"
_STARTUP: Final = "startup"
_STOP: Final = "stop"
_FAIL: Final = "/healthcheck/fail"
"""The admin page that makes Envoy close connections: for HTTP/1 with the next response, for HTTP/2 by GOAWAY."""
_LOOPBACK: Final = "127.0.0.1"
_SLOWEST: Final = "10s"
"""The longest time for a kubelet's request to arrive, and for its connection to be idle: any client may open one."""


def server(host: str, port: int, name: str | None = None) -> xds_server.Server:
    """The xDS server as pods reach it. `name` is the name in its certificate, by default the host."""
    tls = xds_server.Tls(authority=AUTHORITY_FILE, name=name or host, token=TOKEN_FILE, folder=CONFIG_FOLDER)
    return xds_server.Server(host, port, tls)


def pod_bootstrap(xds: xds_server.Server, *, ipv6: bool) -> dict[str, bytes]:
    """The files of one folder, by name: `BOOTSTRAP_FILE`, which `envoy -c` runs, and the TLS secrets that it names.

    `ipv6`: pods have IPv6 addresses. On a kernel without IPv6, Envoy would not start with a listener for them.
    """
    siblings: Json = {
        "name": SIBLINGS,
        "type": "EDS",
        "connect_timeout": CONNECT_TIMEOUT,
        "eds_cluster_config": {"eds_config": ADS, "service_name": SIBLINGS},
    }
    own_admin = {"name": _STOP, "type": "STATIC", "load_assignment": endpoints(_STOP, [_LOOPBACK], ADMIN_PORT)}
    content = message(
        BOOTSTRAP,
        {
            **admin(_LOOPBACK, ADMIN_PORT, changing=[_FAIL]),
            **process(),
            "cluster_manager": {"local_cluster_name": SIBLINGS},
            "static_resources": {
                "clusters": [xds_server.cluster(xds), siblings, own_admin],
                "listeners": [_startup(ipv6=ipv6), _stop(ipv6=ipv6), _probes(ipv6=ipv6), _probe_answers()],
            },
            "dynamic_resources": asking(WAITING),
            "bootstrap_extensions": [_internal_listeners()],
        },
    )
    files = {BOOTSTRAP_FILE: to_yaml(to_json(content))}
    for name, secret in xds_server.secrets(xds.tls).items() if xds.tls is not None else ():
        files[name] = to_yaml(secret)
    return files


def _startup(*, ipv6: bool) -> Json:
    """The listener that answers `/ready` with 200 once Envoy has its configuration."""
    route = {"match": {"path": "/ready"}, "direct_response": {"status": 200, "body": {"inline_string": "LIVE\n"}}}
    return _for_kubelet(_STARTUP, STARTUP_PORT, ipv6=ipv6, route_config=_table(_STARTUP, route))


def _stop(*, ipv6: bool) -> Json:
    """The listener for the `preStop` hook. It makes exactly that request a POST of one admin page.

    A kubelet can send a GET only, and the admin interface changes nothing for a GET. Any other method, path or query,
    or a request with a body, matches no route: Envoy answers 404, and nothing reaches the admin interface.
    """
    absent = {"present_match": True, "invert_match": True}
    is_hook = [
        {"name": ":method", "string_match": {"exact": "GET"}},
        {"name": ":path", "string_match": {"exact": STOP_PATH}},
        {"name": "content-length", **absent},
        {"name": HOLD + FRAMING, **absent},
    ]
    route = {"match": {"path": STOP_PATH, "headers": is_hook}, "route": {"cluster": _STOP, "prefix_rewrite": _FAIL}}
    # No other filter of Envoy may write the method of a request. The route stays that of the GET.
    script = 'function envoy_on_request(handle)\n  handle:headers():replace(":method", "POST")\nend\n'
    lua = "envoy.extensions.filters.http.lua.v3.Lua"
    to_post = extension("post", lua, default_source_code={"inline_string": script}, clear_route_cache=False)
    return _for_kubelet(_STOP, STOP_PORT, [to_post], ipv6=ipv6, route_config=_table(_STOP, route))


def _probes(*, ipv6: bool) -> Json:
    """The listener that answers probes. Its routes come from the server; to everything else it answers 404."""
    # Envoy demands the name of a runtime value that could replace the number.
    every_status = {"op": "GE", "value": {"default_value": 0, "runtime_key": "admc.status.0"}}
    no_body = {"filter": {"status_code_filter": {"comparison": every_status}}, "body": {"inline_string": ""}}
    return _for_kubelet(
        PROBES,
        PROBE_PORT,
        ipv6=ipv6,
        rds={"config_source": WAITING, "route_config_name": PROBES},
        local_reply_config={"mappers": [no_body]},
    )


def _probe_answers() -> Json:
    """The listener inside Envoy to which the routes of probes lead."""
    route = {"match": {"prefix": ""}, "direct_response": {"status": 200}}
    manager = _manager(PROBE_ANSWERS, route_config=_table(PROBE_ANSWERS, route))
    return {"name": PROBE_ANSWERS, "internal_listener": {}, **_chain(PROBE_ANSWERS, manager)}


def _internal_listeners() -> Json:
    """Envoy has listeners without a socket only with this extension."""
    return extension(
        "envoy.bootstrap.internal_listener",
        "envoy.extensions.bootstrap.internal_listener.v3.InternalListener",
    )


def _table(name: str, route: Json) -> Json:
    return {"virtual_hosts": [{"name": name, "domains": ["*"], "routes": [route]}]}


def _for_kubelet(name: str, port: int, filters: Sequence[Json] = (), *, ipv6: bool, **fields: Json | str) -> Json:
    """A listener at all addresses of the pod. `fields` are of its connection manager."""
    early = "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    manager = _manager(
        name,
        filters,
        # A body of HTTP/2 need not have a header by which a route could refuse it.
        codec_type="HTTP1",
        request_headers_timeout=_SLOWEST,
        request_timeout=_SLOWEST,
        common_http_protocol_options={"idle_timeout": _SLOWEST},
        early_header_mutation_extensions=[extension("held-headers", early, mutations=hold())],
        **fields,
    )
    at: Json = {"socket_address": {"address": "0.0.0.0", "port_value": port}}  # noqa: S104
    others = [{"address": {"socket_address": {"address": "::", "port_value": port}}}] if ipv6 else []
    return {"name": name, "address": at, "additional_addresses": others, **_chain(name, manager)}


def _manager(name: str, filters: Sequence[Json] = (), **fields: Json | list[Json] | str) -> Json:
    router = extension("router", "envoy.extensions.filters.http.router.v3.Router", suppress_envoy_headers=True)
    return extension(
        "http",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=name,
        http_filters=[*filters, router],
        **fields,
    )


def _chain(name: str, manager: Json) -> Json:
    return {"filter_chains": [{"name": name, "filters": [manager]}]}
