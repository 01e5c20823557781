"""`admc serve`: configures running ADMs over xDS, from a program or a plan, and follows its changes."""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from admc.base.exits import wrong_usage
from admc.base.terminal import visible
from admc.cli.options import OPS, AdmMode, EffortOption, IncludeOption
from admc.cli.serve_cluster import ClusterOptions, serve_cluster
from admc.cli.serve_cluster import check as check_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.base.exits import CommandError
    from admc.serve.auth.identity import Settings
    from admc.serve.auth.tls import TlsFiles


_AUTHENTICATION_HINT: Final = "give `--tls-client-ca FILE`, or `--token-keys FILE` with `--token-audience NAME`"
USUAL_PORTS: Final = {"--xds": 18000, "--ops": 18001, "--reached-at": 18000, "--webhook": 18002}


class ServeLog(StrEnum):
    TEXT = "text"
    JSON = "json"


class AccessOptions(NamedTuple):
    """The options that control which clients may connect."""

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
    xds: Annotated[str, typer.Option("--xds", metavar="ADDRESS:PORT", help="The address of the xDS server.")],
    program: Annotated[
        Path | None,
        typer.Argument(
            metavar="PROGRAM",
            help="The program, such as policies.adm, or its plan; none with --cluster.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="Follow the Kubernetes cluster: the Program objects whose controller is this installation.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            metavar="NAMESPACE",
            help="Where the installation's own objects are; the namespace of the server's pod unless given.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", metavar="FILE", help="How to reach the API server from outside of the cluster."),
    ] = None,
    reached_at: Annotated[
        str | None,
        typer.Option(
            "--reached-at",
            metavar="HOST:PORT",
            help="Where pods reach the xDS server; the Service admc-NAME of the installation unless given.",
        ),
    ] = None,
    endpoints: Annotated[
        Path | None,
        typer.Option(
            "--endpoints", metavar="FILE", help="Addresses of the services, as JSON; the server follows this file, too."
        ),
    ] = None,
    mode: Annotated[
        AdmMode,
        typer.Option(
            "--mode",
            help="How ADMs get traffic: redirected connections, which need --endpoints, or explicit "
            "listeners, to try it "
            "out on one machine.",
        ),
    ] = AdmMode.REDIRECT,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Store the active state there, and the step of a rollout, for a restart of the server.",
        ),
    ] = None,
    ops: Annotated[
        str,
        typer.Option(
            "--ops", metavar="ADDRESS:PORT", help="The address of /healthz, /readyz, /metrics and /status.json."
        ),
    ] = OPS,
    ops_name: Annotated[
        list[str] | None,
        typer.Option(
            "--ops-name", metavar="NAME", help="A host name by which clients may ask the --ops address; repeatable."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            "--tls-cert",
            metavar="FILE",
            help="The server's certificate; with --cluster, the server makes it itself unless given.",
        ),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key.")] = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="IMAGE",
            help="With --cluster: as for admc inject, with admc and iptables.",
        ),
    ] = None,
    envoy_image: Annotated[
        str | None,
        typer.Option("--envoy-image", metavar="IMAGE", help="With --cluster: as for admc inject, with Envoy."),
    ] = None,
    also_image: Annotated[
        list[str] | None,
        typer.Option(
            "--also-image",
            metavar="REPOSITORY",
            help="With --cluster: another repository from which pods may have the image of --image; repeatable.",
        ),
    ] = None,
    also_envoy_image: Annotated[
        list[str] | None,
        typer.Option(
            "--also-envoy-image",
            metavar="REPOSITORY",
            help="With --cluster: another repository from which pods may have the image of --envoy-image; repeatable.",
        ),
    ] = None,
    adm_limits: Annotated[
        str | None,
        typer.Option(
            "--adm-limits",
            metavar="cpu=AMOUNT,memory=AMOUNT",
            help="With --cluster: limits of the resources of injected ADMs, as quotas ask for; none unless given.",
        ),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            "--webhook",
            metavar="ADDRESS:PORT",
            help="With --cluster: where the API server asks for the ADMs of new pods; no webhook unless given.",
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca", metavar="FILE", help="With --cluster: the authority by which proxies trust the server."
        ),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option("--tls-client-ca", metavar="FILE", help="Authenticate proxies by certificates of this CA."),
    ] = None,
    identities: Annotated[
        Path | None,
        typer.Option(
            "--identities",
            metavar="FILE",
            help="The identities of each service, as JSON; the server follows this file, too.",
        ),
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
        typer.Option(
            "--token-keys", metavar="FILE", help="Authenticate proxies by tokens that these keys (JWKS) have signed."
        ),
    ] = None,
    token_audience: Annotated[
        str | None, typer.Option("--token-audience", metavar="NAME", help="The required audience (aud) of tokens.")
    ] = None,
    admin: Annotated[
        list[str] | None,
        typer.Option(
            "--admin",
            metavar="IDENTITY",
            help="An identity that may read the configuration of all proxies; repeatable.",
        ),
    ] = None,
    plaintext: Annotated[
        bool, typer.Option("--plaintext", help="No TLS and no authentication; on loopback only.")
    ] = False,
    plaintext_anywhere: Annotated[
        bool, typer.Option("--plaintext-anywhere", help="Allow --plaintext on other addresses, too.")
    ] = False,
    include: IncludeOption = None,
    effort: EffortOption = None,
    log: Annotated[
        ServeLog | None,
        typer.Option(
            "--log", help="The form of the log on standard error; unless given, text on a terminal and JSON elsewhere."
        ),
    ] = None,
) -> int:
    """Configure running ADMs over xDS.

    The server follows the program and all other files, or the cluster: a change is compiled and pushed. Ctrl-C or
    SIGTERM ends it, with exit code 0.

    To try it out on one machine: `admc serve policies.adm --xds 127.0.0.1:18000 --plaintext --mode explicit`
    """
    access = AccessOptions(
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
    xds_address, ops_address = _address("--xds", xds), _address("--ops", ops)
    if xds_address == ops_address and xds_address[1]:
        raise _same_address("--xds", "--ops")
    in_cluster = ClusterOptions(
        cluster,
        namespace,
        kubeconfig,
        tls_ca,
        None if reached_at is None else _address("--reached-at", reached_at),
        image,
        envoy_image,
        tuple(also_image or ()),
        tuple(also_envoy_image or ()),
        adm_limits,
        None if webhook is None else _address("--webhook", webhook),
    )
    for option, address in (("--xds", xds_address), ("--ops", ops_address)):
        if in_cluster.webhook == address and address[1]:
            raise _same_address(option, "--webhook")
    check_cluster(
        in_cluster,
        (tls_cert, tls_key),
        {
            "a program": program,
            "`--endpoints`": endpoints,
            "`--mode explicit`": mode is AdmMode.EXPLICIT,
            "`--state`": state,
            "`--include`": include,
            "`--plaintext`": plaintext or plaintext_anywhere,
            **{f"`{name}`": True for name in _tls_options(access) if name not in ("--tls-cert", "--tls-key")},
        },
    )
    if cluster is None:
        if program is None:
            raise wrong_usage("ADM801", "`admc serve` needs a program, or `--cluster`", hint="name the program")
        _check_access(access, xds_address)
    from admc.serve.auth import handshakes

    with handshakes.grpc_tracing(tls=access.tls_cert is not None or cluster is not None):
        from admc.serve.app import ListenOptions
        from admc.serve.app import serve as serve_
        from admc.serve.auth import identity
        from admc.serve.compiling.source import Source
        from admc.serve.files.environment import FileEnvironment
        from admc.serve.files.state_dir import open_state_dir
        from admc.serve.observe.events import LogFormat
        from emitters.envoy import Mode

    form = None if log is None else LogFormat(log)
    listening = ListenOptions(xds_address, ops_address, _tls(access), form, _names(ops_name or ()))
    if cluster is not None or program is None:
        return serve_cluster(in_cluster, listening, effort)
    source = Source(program, Mode(mode), effort, tuple(include or ()))
    settings = _settings(access)
    identity.check(settings)
    state_dir = None if state is None else open_state_dir(state)
    try:
        return serve_(FileEnvironment(source, endpoints, settings, state_dir), listening)
    finally:
        if state_dir is not None:
            state_dir.close()


def _same_address(one: str, other: str) -> CommandError:
    hint = "give each a port of its own"
    return wrong_usage("ADM801", f"`{one}` and `{other}` are the same address", hint=hint)


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    usual = USUAL_PORTS[option]
    bracketed = host.startswith("[") and host.endswith("]")
    fits = port.isascii() and port.isdecimal() and int(port) <= 65535
    if not host or not _is_host_name(host) or not fits or (":" in host and not bracketed):
        raise wrong_usage(
            "ADM801",
            f"`{option}` needs an address and a port, and `{visible(text[:100])}` is not that",
            hint=f"write `{option} 127.0.0.1:{usual}`, or `{option} [::1]:{usual}`; a port is at most 65535",
        )
    return host.strip("[]"), int(port)


def _names(given: Iterable[str]) -> tuple[str, ...]:
    for name in given:
        if not name.strip(".") or not _is_host_name(name) or any(sign in name for sign in ":/ "):
            raise wrong_usage(
                "ADM801",
                f"`--ops-name` needs a host name, and `{visible(name[:100])}` is not that",
                hint="write it without a port: `--ops-name admc.admc-system.svc`",
            )
    return tuple(given)


def _is_host_name(host: str) -> bool:
    """Whether DNS can resolve the name: none of its parts is empty or too long."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _check_access(access: AccessOptions, where: tuple[str, int]) -> None:
    """Check that the server has TLS and authentication, or `--plaintext`. Beyond loopback this needs a second
    option."""
    secured = _tls_options(access)
    if access.plaintext and secured:
        raise wrong_usage(
            "ADM801",
            f"`--plaintext` and `{secured[0]}` contradict each other",
            hint=f"leave `{secured[0]}` out to try it out on loopback, or `--plaintext` to have TLS",
        )
    if access.plaintext_anywhere and not access.plaintext:
        raise wrong_usage(
            "ADM801",
            "`--plaintext-anywhere` needs `--plaintext`",
            hint="give both, or neither to have TLS",
        )
    if access.plaintext:
        _check_plaintext(access, where)
    else:
        _check_tls(access, secured)


def _tls_options(access: AccessOptions) -> list[str]:
    """The given options that have a meaning only with TLS."""
    values = (
        ("--tls-cert", access.tls_cert),
        ("--tls-key", access.tls_key),
        ("--tls-client-ca", access.tls_client_ca),
        ("--token-keys", access.token_keys),
        ("--token-audience", access.token_audience),
        ("--identities", access.identities),
        ("--trust-domain", access.trust_domain),
        ("--admin", access.admins or None),
    )
    return [name for name, value in values if value is not None]


def _check_plaintext(access: AccessOptions, where: tuple[str, int]) -> None:
    from emitters.addresses.index import is_address

    if access.plaintext_anywhere or _is_loopback(where[0]):
        return
    if not is_address(where[0]):
        raise wrong_usage(
            "ADM850",
            f"`--plaintext` needs a loopback address, and `{visible(where[0])}` is a name",
            cause="a name may resolve to another address tomorrow, and plain text is for this machine only",
            hint="write `--xds 127.0.0.1:PORT` or `--xds [::1]:PORT`",
        )
    raise wrong_usage(
        "ADM850",
        f"plain text at `{visible(where[0])}` would give the configuration of all services to every client in reach",
        cause="with `--plaintext`, the server trusts the service name that a proxy sends",
        hint="listen on 127.0.0.1, give certificates, or add `--plaintext-anywhere` if the network is trusted",
    )


def _check_tls(access: AccessOptions, secured: list[str]) -> None:
    if access.tls_cert is None or access.tls_key is None:
        missing = [name for name in ("--tls-cert", "--tls-key") if name not in secured]
        raise wrong_usage(
            "ADM850",
            f"`admc serve` needs {' and '.join(f'`{name}`' for name in missing)}",
            cause="proxies get their configuration over TLS, each only that of its own service",
            hint="give `--tls-cert`, `--tls-key` and `--tls-client-ca`, or `--plaintext` to try it out on loopback",
        )
    if access.tls_client_ca is None and access.token_keys is None:
        raise wrong_usage(
            "ADM850",
            "proxies authenticate by certificates or by tokens, and no option says which ones are valid",
            hint=_AUTHENTICATION_HINT,
        )
    if access.tls_client_ca is not None and access.token_keys is not None:
        raise wrong_usage(
            "ADM801", "proxies authenticate by certificates or by tokens, not by both", hint=_AUTHENTICATION_HINT
        )
    if (access.token_keys is None) != (access.token_audience is None):
        raise wrong_usage(
            "ADM801",
            "tokens need keys and an audience",
            hint="give both `--token-keys FILE` and `--token-audience NAME`",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may resolve to any address


def _settings(access: AccessOptions) -> Settings:
    from admc.serve.auth.identity import TRUST_DOMAIN, Proof, Settings

    if access.plaintext:
        return Settings(Proof.NONE)
    return Settings(
        Proof.CERTIFICATE if access.token_keys is None else Proof.TOKEN,
        access.trust_domain or TRUST_DOMAIN,
        access.identities,
        access.token_keys,
        access.token_audience or "",
        access.admins,
    )


def _tls(access: AccessOptions) -> TlsFiles | None:
    from admc.serve.auth.tls import TlsFiles

    if access.tls_cert is None or access.tls_key is None:
        return None
    return TlsFiles(access.tls_cert, access.tls_key, access.tls_client_ca)
