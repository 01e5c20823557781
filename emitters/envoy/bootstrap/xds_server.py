"""How an ADM reaches its xDS server, and authenticates to it.

With TLS, certificates are secrets of their own, in files beside the bootstrap. Envoy reads these files again whenever a
file is moved into their folder, as `mv` and the mounted secrets of Kubernetes do. If the bootstrap itself named the
files, Envoy would read them only once.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final, NamedTuple

from emitters.addresses.index import is_address
from emitters.envoy.chains.clusters import http2_options
from emitters.envoy.messages.typed import Json, extension, typed

XDS_CLUSTER: Final = "xds"
MAX_TOKEN: Final = 16_384
CERTIFICATE: Final = "xds-certificate.yaml"
AUTHORITY: Final = "xds-authority.yaml"
_SECRET: Final = "envoy.extensions.transport_sockets.tls.v3.Secret"  # noqa: S105
_TLS: Final = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"


class Tls(NamedTuple):
    """The files for TLS, by their paths on the ADM's machine."""

    authority: str
    """The file of the authority that has to have signed the server's certificate."""
    name: str
    """The name or address in the server's certificate."""
    certificate: str | None = None
    """The file of the ADM's own certificate, if the ADM authenticates with one."""
    key: str | None = None
    token: str | None = None
    """The file of a token, if the ADM authenticates with one."""
    folder: str | None = None
    """The folder of the files of `secrets`, if it is known."""
    emitted: str = "."
    """The folder of the emission. If `folder` is None, the files are in a folder below it that has the name of the
    ADM's service."""

    def beside(self, service: str) -> Tls:
        """The same for one ADM, with the folder of its files."""
        return self if self.folder is not None else self._replace(folder=str(PurePosixPath(self.emitted) / service))


class Server(NamedTuple):
    """An xDS server. Without TLS it does not authenticate ADMs."""

    host: str
    port: int
    tls: Tls | None = None


def secrets(tls: Tls) -> dict[str, Json]:
    """The files beside the bootstrap that Envoy watches, by name."""
    trusted: Json = {"trusted_ca": {"filename": tls.authority}, "watched_directory": _folder(tls.authority)}
    names = [{"san_type": "IP_ADDRESS" if is_address(tls.name) else "DNS", "matcher": {"exact": tls.name}}]
    secrets_by_name = {AUTHORITY: {"validation_context": {**trusted, "match_typed_subject_alt_names": names}}}
    if tls.certificate is not None:
        own = {"certificate_chain": {"filename": tls.certificate}, "private_key": {"filename": tls.key}}
        secrets_by_name[CERTIFICATE] = {"tls_certificate": {**own, "watched_directory": _folder(tls.certificate)}}
    return {name: {"resources": [typed(_SECRET, name=name, **content)]} for name, content in secrets_by_name.items()}


def _shows_token(path: str) -> list[Json]:
    """Filters of the server's cluster that read the file again for each stream, and send its token in a header.

    Envoy itself can read files of tokens in two ways, and neither fits. Its `google_grpc` client does not set the
    packet mark of `clusters.marked`. A generic secret has to begin with `Bearer`, and the token files of Kubernetes do
    not."""
    script = (
        "function envoy_on_request(handle)\n"
        f'  local file = io.open("{path}", "r")\n'
        "  if file == nil then return end\n"
        f"  local token = file:read({MAX_TOKEN})\n"
        "  file:close()\n"
        '  if token ~= nil then handle:headers():replace("authorization", "Bearer " .. token:gsub("%s+", "")) end\n'
        "end\n"
    )
    code = {"inline_string": script}
    return [
        extension("token", "envoy.extensions.filters.http.lua.v3.Lua", default_source_code=code),
        extension("codec", "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec"),
    ]


def cluster(server: Server) -> Json:
    """The cluster of the server."""
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    keepalive = {"connection_keepalive": {"interval": "30s", "timeout": "10s"}}
    address = {"socket_address": {"address": server.host, "port_value": server.port}}
    token = None if server.tls is None else server.tls.token
    fields: Json = {"explicit_http_config": {"http2_protocol_options": {**http2_options(), **keepalive}}}
    if token is not None:
        fields["http_filters"] = _shows_token(token)
    server_cluster: Json = {
        "name": XDS_CLUSTER,
        "type": "STRICT_DNS",
        "connect_timeout": "5s",
        "load_assignment": {
            "cluster_name": XDS_CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        "typed_extension_protocol_options": {options: typed(options, **fields)},
    }
    if server.tls is not None:
        common: Json = {"alpn_protocols": ["h2"], "validation_context_sds_secret_config": _read(server.tls, AUTHORITY)}
        if server.tls.certificate is not None:
            common["tls_certificate_sds_secret_configs"] = [_read(server.tls, CERTIFICATE)]
        sni = None if is_address(server.tls.name) else server.tls.name
        server_cluster["transport_socket"] = extension(
            "envoy.transport_sockets.tls", _TLS, sni=sni, common_tls_context=common
        )
    return server_cluster


def _read(tls: Tls, name: str) -> Json:
    path = str(PurePosixPath(tls.folder or tls.emitted) / name)
    return {"name": name, "sds_config": {"path_config_source": {"path": path}, "resource_api_version": "V3"}}


def _folder(path: str) -> Json:
    return {"path": str(PurePosixPath(path).parent)}
