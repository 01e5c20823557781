"""`admc serve`: keeps running ADMs configured, from a program or a plan, and follows every change of it."""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from admc.cli.options import OPS, AdmMode, EffortOption, IncludeOption
from admc.exits import wrong_usage
from admc.terminal import visible

if TYPE_CHECKING:
    from admc.serve.auth.identity import Settings
    from admc.serve.auth.tls import TlsFiles


MAX_DRAIN: Final = 86_400.0
USUAL_PORTS: Final = {"--xds": 18000, "--ops": 18001}


class ServeLog(StrEnum):
    TEXT = "text"
    JSON = "json"


class Door(NamedTuple):
    """What the command line says of who may ask."""

    plaintext: bool
    plaintext_anywhere: bool
    tls_cert: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    token_keys: Path | None
    token_audience: str | None
    identities: Path | None
    trust_domain: str | None
    admins: tuple[str, ...]


def serve(
    program: Annotated[
        Path, typer.Argument(metavar="PROGRAM", help="The program, such as policies.adm, or a plan of it.")
    ],
    xds: Annotated[str, typer.Option("--xds", metavar="ADDRESS:PORT", help="Where proxies ask.")],
    endpoints: Annotated[
        Path | None,
        typer.Option("--endpoints", metavar="FILE", help="Addresses of the services, as JSON; followed, too."),
    ] = None,
    mode: Annotated[
        AdmMode,
        typer.Option(
            "--mode",
            help="How ADMs get traffic: redirected, for which they need --endpoints, or, to try it out on one machine, "
            "by explicit listeners, as compile --emit writes them.",
        ),
    ] = AdmMode.REDIRECT,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Keep there what a restart must not lose: what is in force, and how far a transition is.",
        ),
    ] = None,
    ops: Annotated[
        str, typer.Option("--ops", metavar="ADDRESS:PORT", help="Where /healthz, /readyz, /metrics and the status are.")
    ] = OPS,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="The server's certificate.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key.")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option("--tls-client-ca", metavar="FILE", help="Proxies show certificates: who has signed them."),
    ] = None,
    identities: Annotated[
        Path | None,
        typer.Option("--identities", metavar="FILE", help="Which identity is which service, as JSON; followed, too."),
    ] = None,
    trust_domain: Annotated[
        str | None,
        typer.Option(
            "--trust-domain",
            metavar="NAME",
            help="The trust domain of SPIFFE identities; cluster.local unless given.",
        ),
    ] = None,
    token_keys: Annotated[
        Path | None,
        typer.Option("--token-keys", metavar="FILE", help="Or proxies show tokens: the keys (JWKS) that sign them."),
    ] = None,
    token_audience: Annotated[
        str | None, typer.Option("--token-audience", metavar="NAME", help="Whom tokens must be for (aud).")
    ] = None,
    admin: Annotated[
        list[str] | None, typer.Option("--admin", metavar="IDENTITY", help="May see what all proxies have; repeatable.")
    ] = None,
    plaintext: Annotated[
        bool, typer.Option("--plaintext", help="No TLS, and proxies are believed; on loopback only.")
    ] = False,
    plaintext_anywhere: Annotated[
        bool, typer.Option("--plaintext-anywhere", help="With --plaintext: beyond loopback, too.")
    ] = False,
    drain: Annotated[
        float,
        typer.Option(
            "--drain",
            metavar="SECONDS",
            help="The proxies' --drain-time-s: how long they keep older connections when a plan changes.",
        ),
    ] = 600.0,
    include: IncludeOption = None,
    effort: EffortOption = None,
    log: Annotated[
        ServeLog | None,
        typer.Option(
            "--log", help="How events are written to standard error: text to a terminal, lines of JSON elsewhere."
        ),
    ] = None,
) -> int:
    """Keep running ADMs configured over xDS.

    It follows the program and every file that it is given. Ctrl-C or SIGTERM ends it in good order, with 0.

    To try it out on one machine: `admc serve policies.adm --xds 127.0.0.1:18000 --plaintext --mode explicit`
    """
    door = Door(
        plaintext,
        plaintext_anywhere,
        tls_cert,
        tls_key,
        tls_client_ca,
        token_keys,
        token_audience,
        identities,
        trust_domain,
        tuple(admin or ()),
    )
    where, shown = _address("--xds", xds), _address("--ops", ops)
    if where == shown and where[1]:
        raise wrong_usage("ADM801", "`--xds` and `--ops` are the same address", hint="give each a port of its own")
    _check_door(door, where)
    if effort is not None and not 0 < effort < float("inf"):
        raise wrong_usage("ADM801", "`--effort` must be a number above 0")
    if not 0 <= drain <= MAX_DRAIN:
        raise wrong_usage("ADM801", f"`--drain` must be between 0 and {MAX_DRAIN:.0f}")
    from admc.serve.auth import handshakes

    with handshakes.core_asked(tls=door.tls_cert is not None):
        from admc.serve.active_config import Options
        from admc.serve.app import Listening
        from admc.serve.app import serve as serve_
        from admc.serve.auth import identity
        from admc.serve.build.source import Source
        from admc.serve.observe.events import LogFormat
        from admc.serve.state_dir.store import open_state_dir
        from emitters.envoy import Mode

    source = Source(program, Mode(mode), effort, tuple(include or ()))
    form = None if log is None else LogFormat(log)
    settings = _settings(door)
    identity.check(settings)
    kept = None if state is None else open_state_dir(state)
    try:
        return serve_(Options(source, endpoints, settings, kept, drain), Listening(where, shown, _tls(door), form))
    finally:
        if kept is not None:
            kept.close()


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    usual = USUAL_PORTS[option]
    bracketed = host.startswith("[") and host.endswith("]")
    fits = port.isascii() and port.isdecimal() and int(port) <= 65535
    if not host or not _may_be_called(host) or not fits or (":" in host and not bracketed):
        raise wrong_usage(
            "ADM801",
            f"`{option}` needs an address and a port, and `{visible(text[:100])}` is none",
            hint=f"write `{option} 127.0.0.1:{usual}`, or `{option} [::1]:{usual}`; a port is at most 65535",
        )
    return host.strip("[]"), int(port)


def _may_be_called(host: str) -> bool:
    """Whether anybody can look the name up: its parts are neither empty nor too long."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _check_door(door: Door, where: tuple[str, int]) -> None:
    """Closed unless somebody says otherwise, and plain text beyond this machine only if they say it twice."""
    secured = [
        name
        for name, value in (
            ("--tls-cert", door.tls_cert),
            ("--tls-key", door.tls_key),
            ("--tls-client-ca", door.tls_client_ca),
            ("--token-keys", door.token_keys),
            ("--token-audience", door.token_audience),
            ("--identities", door.identities),
            ("--trust-domain", door.trust_domain),
            ("--admin", door.admins or None),
        )
        if value is not None
    ]
    if door.plaintext and secured:
        raise wrong_usage(
            "ADM801",
            f"`--plaintext` and `{secured[0]}` contradict each other",
            hint=f"leave `{secured[0]}` out to try it out on loopback, or `--plaintext` to have TLS",
        )
    if door.plaintext_anywhere and not door.plaintext:
        raise wrong_usage(
            "ADM801",
            "`--plaintext-anywhere` says nothing without `--plaintext`",
            hint="give both, or neither to have TLS",
        )
    if door.plaintext:
        if not door.plaintext_anywhere and not _is_loopback(where[0]):
            if not _is_address(where[0]):
                raise wrong_usage(
                    "ADM850",
                    f"`--plaintext` takes an address of loopback, and `{visible(where[0])}` is a name",
                    cause="a name may stand for another address tomorrow, and plain text is for this machine alone",
                    hint="write `--xds 127.0.0.1:PORT` or `--xds [::1]:PORT`",
                )
            raise wrong_usage(
                "ADM850",
                f"plain text at `{visible(where[0])}` would tell everybody who reaches it each service's configuration",
                cause="with `--plaintext`, a proxy is believed to be what it says it is",
                hint="listen at 127.0.0.1, give certificates, or add `--plaintext-anywhere` if the network is trusted",
            )
        return
    if door.tls_cert is None or door.tls_key is None:
        missing = [name for name in ("--tls-cert", "--tls-key") if name not in secured]
        raise wrong_usage(
            "ADM850",
            f"`admc serve` needs {' and '.join(f'`{name}`' for name in missing)}",
            cause="proxies are told their configuration over TLS, and each only its own service's",
            hint="give `--tls-cert`, `--tls-key` and `--tls-client-ca`, or `--plaintext` to try it out on loopback",
        )
    if (door.tls_client_ca is None) == (door.token_keys is None):
        raise wrong_usage(
            "ADM850" if door.tls_client_ca is None else "ADM801",
            "proxies show who they are by a certificate or by a token"
            + (", and nothing here says which are good" if door.tls_client_ca is None else ", not by either"),
            hint="give `--tls-client-ca FILE`, or `--token-keys FILE` with `--token-audience NAME`",
        )
    if (door.token_keys is None) != (door.token_audience is None):
        raise wrong_usage(
            "ADM801",
            "tokens need keys and an audience",
            hint="give both `--token-keys FILE` and `--token-audience NAME`",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may mean anything, and another thing tomorrow


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _settings(door: Door) -> Settings:
    from admc.serve.auth.identity import TRUST_DOMAIN, Proof, Settings

    if door.plaintext:
        return Settings(Proof.NONE)
    return Settings(
        Proof.CERTIFICATE if door.token_keys is None else Proof.TOKEN,
        door.trust_domain or TRUST_DOMAIN,
        door.identities,
        door.token_keys,
        door.token_audience or "",
        door.admins,
    )


def _tls(door: Door) -> TlsFiles | None:
    from admc.serve.auth.tls import TlsFiles

    if door.tls_cert is None or door.tls_key is None:
        return None
    return TlsFiles(door.tls_cert, door.tls_key, door.tls_client_ca)
