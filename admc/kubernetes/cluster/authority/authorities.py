"""The authorities of an installation and the server's certificate: what is stored, and what a step makes of it.

Secret --from_data--> Authorities --advanced--> Authorities --to_data--> Secret
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from admc.kubernetes.cluster.authority import certificates
from admc.kubernetes.cluster.authority.certificates import Signed, life, names_of, pem
from admc.kubernetes.cluster.authority.schedule import DAY, Step, Times
from dsl.documents import Count, DocumentError, plain, read, record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RECORD: Final = "authority.json"
SIGNER: Final = "signer"
NEXT: Final = "next"
FORMER: Final = "former"
SERVING: Final = "tls"
BUNDLE: Final = "ca.crt"
"""What `kubectl get secret` shows to a person who needs the authority; the server makes it from the others."""


_UNUSABLE: Final = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises for a certificate that is wrong, or that it does not know."""


class AuthorityError(Exception):
    """What is stored cannot be used. The message has no part of a key."""


@record
class Record:
    """What certificates do not say. Times are in seconds since 1970."""

    schema_version: Literal[1]
    next_shown: Count | None
    former_until: Count | None


@dataclass(frozen=True, slots=True)
class Authorities:
    signer: Signed
    serving: Signed
    next: Signed | None = None
    next_shown: int | None = None
    former: x509.Certificate | None = None
    former_until: int | None = None

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """The authorities that proxies trust, the oldest one first: the order does not change when another one
        signs."""
        next_ = None if self.next is None else self.next.certificate
        return tuple(item for item in (self.former, self.signer.certificate, next_) if item is not None)

    @property
    def bundle(self) -> str:
        return "".join(pem(certificate).decode() for certificate in self.trusted)

    def times(self, names: Collection[str]) -> Times:
        return Times(
            life(self.signer.certificate),
            life(self.serving.certificate),
            frozenset(names) <= names_of(self.serving.certificate),
            None if self.next is None else life(self.next.certificate),
            self.next_shown,
            self.former_until,
        )


def advanced(
    before: Authorities | None, step: Step, installation: str, names: Collection[str], now: float
) -> Authorities:
    """Return what is stored after a step. `names` are those of the serving certificate."""
    if before is None or step is Step.CREATE:
        signer = certificates.authority(installation, now)
        return Authorities(signer, certificates.serving_certificate(signer, names, now))
    match step:
        case Step.MAKE_NEXT:
            return replace(before, next=certificates.authority(installation, now), next_shown=None)
        case Step.NOTE_SHOWN:
            return replace(before, next_shown=int(now))
        case Step.PROMOTE if before.next is not None:
            serving = certificates.serving_certificate(before.next, names, now)
            # A day later than the last certificate: a clock that is ahead may have made the one before it.
            until = int(life(before.serving.certificate).ends + DAY)
            return Authorities(before.next, serving, former=before.signer.certificate, former_until=until)
        case Step.RENEW:
            return replace(before, serving=certificates.serving_certificate(before.signer, names, now))
        case Step.DROP_FORMER:
            return replace(before, former=None, former_until=None)
        case _:
            raise ValueError(f"the step `{step}` does not fit what is stored")


# ---- the Secret ----


def to_data(authorities: Authorities) -> dict[str, bytes]:
    times = Record(1, authorities.next_shown, authorities.former_until)
    data = {RECORD: (json.dumps(plain(times), sort_keys=True) + "\n").encode(), BUNDLE: authorities.bundle.encode()}
    pairs = {SIGNER: authorities.signer, SERVING: authorities.serving, NEXT: authorities.next}
    for name, pair in pairs.items():
        if pair is not None:
            data |= {f"{name}.crt": pair.certificate_pem, f"{name}.key": pair.key_pem}
    if authorities.former is not None:
        data[f"{FORMER}.crt"] = pem(authorities.former)
    return data


def from_data(data: Mapping[str, bytes]) -> Authorities:
    """Raises `AuthorityError`."""
    try:
        times = read(Record, data.get(RECORD, b""))
    except DocumentError as error:
        raise AuthorityError(f"`{RECORD}`: {error.message}") from error
    signer, serving = _authority(data, SIGNER), _signed(data, SERVING)
    next_ = _authority(data, NEXT) if f"{NEXT}.crt" in data else None
    former = _certificate(data, FORMER) if f"{FORMER}.crt" in data else None
    if (former is None) != (times.former_until is None):
        raise AuthorityError(f"`{FORMER}.crt` and `former_until` in `{RECORD}` belong together")
    try:
        serving.certificate.verify_directly_issued_by(signer.certificate)
        names_of(serving.certificate)
    except _UNUSABLE:
        raise AuthorityError(f"`{SERVING}.crt` is no certificate that `{SIGNER}.crt` has signed") from None
    return Authorities(signer, serving, next_, times.next_shown, former, times.former_until)


def _authority(data: Mapping[str, bytes], name: str) -> Signed:
    signed = _signed(data, name)
    try:
        extensions = signed.certificate.extensions
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        extensions.get_extension_for_class(x509.SubjectKeyIdentifier)  # what it signs refers to it
    except _UNUSABLE:
        is_authority = False
    if not is_authority:
        raise AuthorityError(f"`{name}.crt` is not the certificate of an authority")
    return signed


def _signed(data: Mapping[str, bytes], name: str) -> Signed:
    certificate = _certificate(data, name)
    try:
        key = serialization.load_pem_private_key(data.get(f"{name}.key", b""), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's message may contain parts of the key, which is secret.
        raise AuthorityError(f"`{name}.key` is not a private key in PEM form") from None
    try:
        is_own = key.public_key() == certificate.public_key()
    except _UNUSABLE:
        is_own = False
    if not is_own or not isinstance(key, ec.EllipticCurvePrivateKey):
        raise AuthorityError(f"`{name}.key` is not the EC key of `{name}.crt`")
    return Signed(certificate, key)


def _certificate(data: Mapping[str, bytes], name: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data.get(f"{name}.crt", b""))
    except ValueError:
        raise AuthorityError(f"`{name}.crt` is not a certificate in PEM form") from None
