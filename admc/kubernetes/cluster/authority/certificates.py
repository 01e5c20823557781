"""X.509: makes the certificate of an authority, and those that it signs. All keys are EC P-256."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from admc.kubernetes.cluster.authority.schedule import AUTHORITY_SECONDS, CLOCK_ERROR, SERVING_SECONDS, Life

if TYPE_CHECKING:
    from collections.abc import Collection

SERIAL_SHOWN: Final = 2**32
"""A part of its serial number is in the name of an authority, so that two authorities do not have one name."""


class Signed(NamedTuple):
    """A certificate with its private key, which is never logged."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return pem(self.certificate)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def authority(installation: str, now: float) -> Signed:
    """Make an authority, which signs itself."""
    serial, key = x509.random_serial_number(), ec.generate_private_key(ec.SECP256R1())
    name = _name(f"admc {installation} {serial % SERIAL_SHOWN:08x}")
    builder = _builder(name, key, serial, _life(now, now + AUTHORITY_SECONDS)).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Signed(builder.sign(key, hashes.SHA256()), key)


def serving_certificate(signer: Signed, names: Collection[str], now: float) -> Signed:
    """Make a server's certificate for names and addresses (`normal_name`). It ends with its authority at the latest."""
    serial, key = x509.random_serial_number(), ec.generate_private_key(ec.SECP256R1())
    ends = min(now + SERVING_SECONDS, life(signer.certificate).ends)
    builder = _builder(_name("admc"), key, serial, _life(now, ends)).issuer_name(signer.certificate.subject)
    own = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (
        (x509.SubjectAlternativeName([_general(name) for name in sorted(names)]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), False),
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return Signed(builder.sign(signer.key, hashes.SHA256()), key)


def life(certificate: x509.Certificate) -> Life:
    return Life(certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """The names and addresses for which a server's certificate is valid."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset((*names.get_values_for_type(x509.DNSName), *addresses))


def normal_name(name: str) -> str:
    """Return a name or address as a certificate has it."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.encode("idna").decode("ascii").lower()


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(name: x509.Name, key: ec.EllipticCurvePrivateKey, serial: int, valid: Life) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(datetime.fromtimestamp(valid.begins, UTC))
        .not_valid_after(datetime.fromtimestamp(valid.ends, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _life(now: float, ends: float) -> Life:
    """Certificates have whole seconds."""
    return Life(int(now - CLOCK_ERROR), int(ends))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
