"""The `--xds` options of `--emit`: the xDS server from which ADMs get their configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import wrong_usage
from admc.base.terminal import visible

if TYPE_CHECKING:
    from pathlib import Path

    from emitters.envoy.bootstrap.xds_server import Server


_OPTIONS: Final = {
    "xds": "--xds",
    "ca": "--xds-ca",
    "name": "--xds-name",
    "cert": "--xds-cert",
    "key": "--xds-key",
    "token": "--xds-token",
    "files": "--xds-files",
}
_LIKE: Final = {"file": "/run/identity/tls.crt", "folder": "/etc/admc"}


class XdsOptions(NamedTuple):
    """The options as given. Files are on the machine of the ADM, so their names are not checked."""

    xds: str | None
    ca: Path | None
    name: str | None
    cert: Path | None
    key: Path | None
    token: Path | None
    files: Path | None
    """The folder of an ADM's `bootstrap-xds.yaml` and `xds-*.yaml` there; None if it runs them from `--emit DIR`."""


def server_of(emit: Path | None, options: XdsOptions) -> Server | None:
    """The server, or None for the default one. Raises `CommandError` (exit 1)."""
    given = [_OPTIONS[name] for name, value in options._asdict().items() if value is not None]
    if not given:
        return None
    if emit is None:
        raise wrong_usage(
            "ADM801",
            f"`{given[0]}` needs `--emit DIR`",
            hint="add `--emit DIR`, which writes the `bootstrap-xds.yaml` with this setting",
        )
    if options.xds is None:
        raise wrong_usage(
            "ADM801",
            f"`{given[0]}` needs `--xds HOST:PORT`",
            hint="give the address of the server: `--xds 127.0.0.1:18000` on this machine",
        )
    host, port = _address(options.xds)
    if options.ca is None and len(given) > 1:
        raise wrong_usage(
            "ADM801",
            f"`{given[1]}` is for TLS",
            hint="name the CA of the server's certificate with `--xds-ca FILE`",
        )
    if (options.cert is None) != (options.key is None):
        raise wrong_usage("ADM801", "a certificate and its key go together", hint="give `--xds-cert` and `--xds-key`")
    if options.cert is not None and options.token is not None:
        raise wrong_usage("ADM801", "an ADM shows a certificate or a token, not both")
    for option in ("ca", "cert", "key", "token", "files"):
        path: Path | None = getattr(options, option)
        if path is not None and not _plain(path):
            what = "folder" if option == "files" else "file"
            raise wrong_usage(
                "ADM801",
                f"`{_OPTIONS[option]}` needs the absolute path of a {what}, and "
                f"`{visible(str(path)[:200])}` is not one",
                hint=f"give its path on the machine of the ADM, such as `{_LIKE[what]}`, without quotes or backslashes",
            )
    from emitters.envoy.bootstrap.xds_server import Server, Tls

    if options.ca is None:
        return Server(host, port)
    cert, key, token = (None if path is None else str(path) for path in (options.cert, options.key, options.token))
    folder = None if options.files is None else str(options.files)
    tls = Tls(str(options.ca), options.name or host, cert, key, token, folder, str(emit.absolute()))
    return Server(host, port, tls)


def _plain(path: Path) -> bool:
    """Whether a path can be written as a string into a script, as the path of a token is."""
    return path.is_absolute() and not set(str(path)) & set("\\\"'") and str(path).isprintable()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    if not host or not host.isprintable() or " " in host or not 0 < number < 65536 or (":" in host and not bracketed):
        raise wrong_usage(
            "ADM801",
            f"`--xds` needs a host and a port, and `{visible(text[:100])}` is not that",
            hint="write `--xds admc.admc-system.svc:18000`, or `--xds [::1]:18000`",
        )
    return host.strip("[]"), number
