"""Authenticates xDS clients, and decides which service's configuration each may receive. Denied by default.

    certificate or token --> identity --> the services of this identity --> one of them

An identity is a SPIFFE URI (`spiffe://cluster.local/ns/shop/sa/search`, from a certificate) or the name of a service
account (`system:serviceaccount:shop:search`, from a token). If an identity has several services, the client's
`node.cluster` chooses among them, and only among them. Without TLS `node.cluster` alone decides.
"""

from __future__ import annotations

import ipaddress
import re
import time
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from cryptography import x509

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.files import read_bounded
from admc.base.terminal import visible
from admc.serve.auth.tokens import ACCOUNT, TokenKeys, bearer, load_keys
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.documents import DocumentError, document, read
from emitters.kubernetes import kubernetes_name
from xds_server.limits.unauthenticated import address_of
from xds_server.transport.client import Admission, Caller, DeniedError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from dsl.program import Program

TRUST_DOMAIN: Final = "cluster.local"
MAX_FILE: Final = 8_000_000
MAX_IDENTITIES: Final = 100_000
MAX_IDENTITY: Final = 2048
"""Characters: the limit of SPIFFE."""
_DOMAIN: Final = re.compile(r"[a-z0-9._-]{1,255}")
_SPIFFE: Final = re.compile(r"spiffe://[a-z0-9._-]{1,255}(?:/[A-Za-z0-9._-]+)+")
_SHAPE: Final = 'its shape is {"services": {"search": ["spiffe://cluster.local/ns/shop/sa/search"]}}'


class Proof(Enum):
    """How clients authenticate."""

    NONE = auto()
    """Plain text: `node.cluster` is trusted."""
    CERTIFICATE = auto()
    TOKEN = auto()


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of the command line that authenticate clients."""

    proof: Proof
    trust_domain: str = TRUST_DOMAIN
    identities: Path | None = None
    """The identities file (docs/identity.md). Without it each service has the service account of the same name."""
    token_keys: Path | None = None
    token_audience: str = ""
    admins: tuple[str, ...] = ()
    """Identities that may read the configuration of every client."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to follow."""
        return tuple(path for path in (self.identities, self.token_keys) if path is not None)


@dataclass(frozen=True, slots=True)
class Identities:
    """Maps clients to services. Immutable: a changed file makes a new one."""

    proof: Proof
    services: frozenset[str]
    allowed: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """Identity -> its services."""
    admins: frozenset[str] = frozenset()
    tokens: TokenKeys | None = None

    def identify(self, caller: Caller) -> Admission:
        """The service of a client, and when its authentication expires. Raises `DeniedError`."""
        claimed = caller.node.cluster
        if self.proof is Proof.NONE:
            if claimed not in self.services:
                raise DeniedError("unknown", f"the program has no service `{_shown(claimed)}`")
            return Admission(claimed)
        identity, expires = self._authenticate(caller)
        services = self.allowed.get(identity, frozenset())
        if not services:
            raise DeniedError("unmapped", f"no service has the identity `{_shown(identity)}`")
        if len(services) == 1:
            (service,) = services
        elif claimed in services:
            service = claimed
        else:
            raise DeniedError(
                "ambiguous", f"`{_shown(identity)}` has several services, and `node.cluster` names none of them"
            )
        return Admission(service, identity, expires)

    def may_administer(self, caller: Caller) -> bool:
        """Whether a client may read the configuration of every other one."""
        if self.proof is Proof.NONE:
            return is_loopback(caller.peer)
        try:
            return self._authenticate(caller)[0] in self.admins
        except DeniedError:
            return False

    def _authenticate(self, caller: Caller) -> tuple[str, float]:
        """The identity of a client, and when its certificate or token expires."""
        if self.proof is Proof.CERTIFICATE:
            return _certified(caller.auth.get("x509_pem_cert", ()))
        if self.tokens is None or not caller.auth:
            raise DeniedError("token", "tokens are accepted only over TLS")
        claims = self.tokens.verify(bearer(caller.metadata))
        return claims.subject, claims.expires


def check(settings: Settings) -> None:
    """Check the options, before any file is read. Raises `CommandError`."""
    if not _DOMAIN.fullmatch(settings.trust_domain):
        raise wrong_usage(
            "ADM801",
            f"`--trust-domain`: `{visible(settings.trust_domain)}` is not a trust domain",
            hint=f"a trust domain is lower case letters, digits, `.`, `-` and `_`, such as `{TRUST_DOMAIN}`",
        )
    for admin in settings.admins:
        if not _is_identity(admin):
            raise wrong_usage("ADM801", f"`--admin`: `{visible(admin)}` is not an identity", hint=_IDENTITY_HINT)
    if settings.proof is Proof.TOKEN and (settings.token_keys is None or not settings.token_audience):
        raise wrong_usage(
            "ADM801",
            "tokens need keys and an audience",
            hint="give both `--token-keys FILE` and `--token-audience NAME`",
        )


def load(settings: Settings, program: Program, *, ignore_unknown: bool = False) -> Identities:
    """Read the identities of a program's services. Raises `CommandError` with all findings.

    With `ignore_unknown`, a name in the identities file that is no service of this program is skipped.
    """
    services = {service.name: service.namespace for service in program.services.values()}
    if settings.proof is Proof.NONE:
        return Identities(Proof.NONE, frozenset(services))
    check(settings)
    tokens = None
    if settings.proof is Proof.TOKEN and settings.token_keys is not None:
        tokens = load_keys(settings.token_keys, settings.token_audience)
    if settings.identities is None:
        allowed = by_service_account(services, settings.trust_domain)
    else:
        content = read_bounded(settings.identities, MAX_FILE, "the identities file", regular=True)
        allowed = from_json(content, services, ignore_unknown=ignore_unknown)
    return Identities(settings.proof, frozenset(services), allowed, frozenset(settings.admins), tokens)


def by_service_account(services: Mapping[str, str], trust_domain: str) -> Mapping[str, frozenset[str]]:
    """Identity -> its service, without an identities file: a service runs as the service account of the same name, in
    its own namespace.

    `services` is name -> namespace. Services of a namespace whose names have the same form in Kubernetes (`a_b`, `a-b`)
    get no identity, because one of them could impersonate the other.
    """
    accounts = {name: (namespace, kubernetes_name(name)) for name, namespace in services.items()}
    uses = Counter(accounts.values())
    services_by_identity: dict[str, frozenset[str]] = {}
    for name, account in accounts.items():
        if uses[account] == 1 and account[1]:
            namespace, own = account
            services_by_identity[f"spiffe://{trust_domain}/ns/{namespace}/sa/{own}"] = frozenset({name})
            services_by_identity[f"system:serviceaccount:{namespace}:{own}"] = frozenset({name})
    return MappingProxyType(services_by_identity)


# ---- the identities file ----

_IDENTITY_HINT: Final = (
    "a certificate's identity is `spiffe://TRUST_DOMAIN/PATH`, and a token's `system:serviceaccount:NAMESPACE:NAME`"
)


@document
class _IdentitiesFile:
    services: Mapping[str, tuple[str, ...]]


def from_json(data: bytes, services: Collection[str], *, ignore_unknown: bool = False) -> Mapping[str, frozenset[str]]:
    """Read an identities file (docs/identity.md). Raises `CommandError` with all findings."""
    findings = Diagnostics()
    listed: Mapping[str, tuple[str, ...]] = {}
    try:
        listed = read(_IdentitiesFile, data.removeprefix(BOM_UTF8)).services
    except DocumentError as error:
        _wrong(findings, error.message, error.hint)
    services_by_identity: dict[str, set[str]] = {}
    for name, identities in sorted(listed.items()):
        if name not in services:
            if not ignore_unknown:
                _wrong(findings, f"the program has no service `{_shown(name)}`", findings.did_you_mean(name, services))
            continue
        for identity in identities:
            if findings.full:
                break
            if not _is_identity(identity):
                message = f"`services.{name}` has `{_shown(identity)}`, which is not an identity"
                _wrong(findings, message, _IDENTITY_HINT)
            else:
                services_by_identity.setdefault(identity, set()).add(name)
    if len(services_by_identity) > MAX_IDENTITIES:
        _wrong(findings, f"it has more than {MAX_IDENTITIES:,} identities")
    if findings.has_errors:
        raise CommandError(Exit.INPUT, findings.items)
    return MappingProxyType({identity: frozenset(names) for identity, names in sorted(services_by_identity.items())})


def _wrong(findings: Diagnostics, message: str, hint: str | None = None) -> None:
    findings.error("ADM820", f"the identities file cannot be used: {message}", None, hint=hint or _SHAPE)


def _is_identity(text: str) -> bool:
    return len(text) <= MAX_IDENTITY and bool(_SPIFFE.fullmatch(text) or ACCOUNT.fullmatch(text))


# ---- certificates and tokens ----


def is_loopback(peer: str) -> bool:
    """Whether an address, as gRPC writes it (`ipv4:127.0.0.1:5`, `ipv6:%5B::1%5D:5`), is on this machine."""
    if not peer.startswith(("ipv4:", "ipv6:")):
        return False
    try:
        address = ipaddress.ip_address(address_of(peer)[0].partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _certified(shown: tuple[bytes, ...]) -> tuple[str, float]:
    """The SPIFFE URI of a certificate that TLS has verified."""
    if not shown:
        raise DeniedError("certificate", "it has no certificate")
    try:
        certificate = x509.load_pem_x509_certificate(shown[0])
        authority = _is_authority(certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise DeniedError("certificate", "its certificate cannot be read") from error
    # SPIFFE: a certificate authority is not a workload, whatever its name.
    if authority:
        raise DeniedError("certificate", "its certificate is that of a certificate authority")
    # SPIFFE: a certificate has exactly one URI, so that there is no choice between identities.
    if len(uris) != 1:
        has = f"{len(uris)} URIs" if uris else "no URI"
        raise DeniedError("certificate", f"its certificate has {has} among its names, and needs exactly one SPIFFE URI")
    if len(uris[0]) > MAX_IDENTITY or not _SPIFFE.fullmatch(uris[0]):
        raise DeniedError("certificate", f"`{_shown(uris[0])}` in its certificate is not a SPIFFE URI with a path")
    expires = certificate.not_valid_after_utc.timestamp()
    if expires <= time.time():
        raise DeniedError("expired", "its certificate has expired")
    return uris[0], expires


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _shown(text: str) -> str:
    return visible(text if len(text) <= 200 else text[:200] + "...")
