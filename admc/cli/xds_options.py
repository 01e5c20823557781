"""What `--emit` is told of the xDS server that ADMs are to ask: options that go together, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from admc.exits import wrong_usage
from admc.terminal import visible

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


class Asked(NamedTuple):
    """As the command line has it. Files are those of the ADM's machine: they are written as given, not looked for."""

    xds: str | None
    ca: Path | None
    name: str | None
    cert: Path | None
    key: Path | None
    token: Path | None
    files: Path | None
    """The folder of an ADM's `bootstrap-xds.yaml` there, and of what comes beside it; None where it is emitted to."""


def server_of(emit: Path | None, asked: Asked) -> Server | None:
    """The server, or None for the usual one. Raises `CommandError` (exit 1)."""
    given = [_OPTIONS[name] for name, value in asked._asdict().items() if value is not None]
    if not given:
        return None
    if emit is None:
        raise wrong_usage(
            "ADM801",
            f"`{given[0]}` says nothing without `--emit DIR`",
            hint="add `--emit DIR`: it writes the `bootstrap-xds.yaml` that this is about",
        )
    if asked.xds is None:
        raise wrong_usage(
            "ADM801",
            f"`{given[0]}` says nothing without `--xds HOST:PORT`",
            hint="say where the server is: `--xds 127.0.0.1:18000` on this machine",
        )
    host, port = _address(asked.xds)
    if asked.ca is None and len(given) > 1:
        raise wrong_usage(
            "ADM801",
            f"`{given[1]}` is for TLS",
            hint="say with `--xds-ca FILE` whose certificate the server has",
        )
    if (asked.cert is None) != (asked.key is None):
        raise wrong_usage("ADM801", "a certificate and its key go together", hint="give `--xds-cert` and `--xds-key`")
    if asked.cert is not None and asked.token is not None:
        raise wrong_usage("ADM801", "an ADM shows a certificate or a token, not both")
    for option in ("ca", "cert", "key", "token", "files"):
        path: Path | None = getattr(asked, option)
        if path is not None and not _plain(path):
            what = "folder" if option == "files" else "file"
            raise wrong_usage(
                "ADM801",
                f"`{_OPTIONS[option]}` needs the whole path of a {what}, and `{visible(str(path)[:200])}` is none",
                hint=f"write where the ADM has it, such as `{_LIKE[what]}`, without quotes or backslashes",
            )
    from emitters.envoy.bootstrap.xds_server import Server, Tls

    if asked.ca is None:
        return Server(host, port)
    cert, key, token = (None if path is None else str(path) for path in (asked.cert, asked.key, asked.token))
    folder = None if asked.files is None else str(asked.files)
    tls = Tls(str(asked.ca), asked.name or host, cert, key, token, folder, str(emit.absolute()))
    return Server(host, port, tls)


def _plain(path: Path) -> bool:
    """The path of a token becomes a text in a script."""
    return path.is_absolute() and not set(str(path)) & set("\\\"'") and str(path).isprintable()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    if not host or not host.isprintable() or " " in host or not 0 < number < 65536 or (":" in host and not bracketed):
        raise wrong_usage(
            "ADM801",
            f"`--xds` needs a host and a port, and `{visible(text[:100])}` is none",
            hint="write `--xds admc.admc-system.svc:18000`, or `--xds [::1]:18000`",
        )
    return host.strip("[]"), number
