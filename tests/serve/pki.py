"""A certificate authority for tests: real keys and certificates, made in memory."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.write_bytes(content)
        return paths


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Authority:
    """Signs certificates, by default for an hour."""

    def __init__(self, name: str = "test", seconds: float = 3600.0) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key, seconds)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        self.key = _pem(self._key)

    def issue(
        self,
        *uris: str,
        dns: tuple[str, ...] = (),
        addresses: tuple[str, ...] = (),
        seconds: float = 3600.0,
        begins: float = -7200.0,
        name: str = "leaf",
        organization: str = "",
        authority: bool = False,
    ) -> Pair:
        """A certificate with these names; `seconds` may be negative: then it has ended."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        made = self._builder(x509.Name(subject), key, seconds, begins)
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(one) for one in dns]
        names += [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if authority:
            made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = made.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))

    def _builder(
        self, subject: x509.Name, key: Key, seconds: float, begins: float = -7200.0
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(seconds=begins))
            .not_valid_after(now + datetime.timedelta(seconds=seconds))
        )
