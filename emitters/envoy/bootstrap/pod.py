"""The files from which every Envoy of a cluster starts: the same ones in the pods of all services.

An Envoy gets its identity on its command line: `--service-node POD --service-cluster SERVICE`. All else comes from the
xDS server, and Envoy waits for it: *started* means configured. A listener shows that Envoy has started, at every
address of the pod (IPv6 only if pods have it) and on a port of its own: Envoy opens it once it has its configuration,
and answers requests to it itself.
"""

from __future__ import annotations

from typing import Final

from emitters.envoy.bootstrap import xds_server
from emitters.envoy.bootstrap.bootstrap import BOOTSTRAP, admin, asking, process
from emitters.envoy.chains.chain_names import WAITING
from emitters.envoy.chains.clusters import ADS, CONNECT_TIMEOUT
from emitters.envoy.messages.typed import Json, extension, message, to_json, to_yaml
from emitters.envoy.resources import SIBLINGS
from emitters.ports import ADMIN_PORT, STARTUP_PORT

CONFIG_FOLDER: Final = "/run/admc/config"
"""The folder of a pod with the files of `pod_bootstrap` and the authority of the server's certificate."""
AUTHORITY_FILE: Final = f"{CONFIG_FOLDER}/ca.crt"
TOKEN_FILE: Final = "/run/admc/token/token"  # noqa: S105
BOOTSTRAP_FILE: Final = "bootstrap.yaml"
_STARTUP: Final = "startup"


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
    content = message(
        BOOTSTRAP,
        {
            **admin("127.0.0.1", ADMIN_PORT),
            **process(),
            "cluster_manager": {"local_cluster_name": SIBLINGS},
            "static_resources": {"clusters": [xds_server.cluster(xds), siblings], "listeners": [_startup(ipv6=ipv6)]},
            "dynamic_resources": asking(WAITING),
        },
    )
    files = {BOOTSTRAP_FILE: to_yaml(to_json(content))}
    for name, secret in xds_server.secrets(xds.tls).items() if xds.tls is not None else ():
        files[name] = to_yaml(secret)
    return files


def _startup(*, ipv6: bool) -> Json:
    """The listener that answers `/ready` with 200 once Envoy has its configuration."""
    route = {"match": {"path": "/ready"}, "direct_response": {"status": 200, "body": {"inline_string": "LIVE\n"}}}
    manager = extension(
        "http",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=_STARTUP,
        route_config={"virtual_hosts": [{"name": _STARTUP, "domains": ["*"], "routes": [route]}]},
        http_filters=[extension("router", "envoy.extensions.filters.http.router.v3.Router")],
    )
    at: Json = {"socket_address": {"address": "0.0.0.0", "port_value": STARTUP_PORT}}  # noqa: S104
    others = [{"address": {"socket_address": {"address": "::", "port_value": STARTUP_PORT}}}] if ipv6 else []
    return {
        "name": _STARTUP,
        "address": at,
        "additional_addresses": others,
        "filter_chains": [{"name": _STARTUP, "filters": [manager]}],
    }
