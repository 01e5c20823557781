"""The server's certificate and the clients' CA, which may be replaced while the server runs.

    files --CertificateFiles--> Material --Certificates--> gRPC

The server looks for another certificate at each new connection, which already uses it; open connections go on. If a
file cannot be used, the server logs and counts this once, and the last good certificate stays in use.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc  # type: ignore[import-untyped]
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import read_bounded
from admc.base.terminal import visible
from admc.serve.file_watch import look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

    from admc.serve.file_watch import FileStat

LOG: Final = logging.getLogger("admc.serve")
MAX_FILE: Final = 1_000_000


class TlsFiles(NamedTuple):
    """PEM files. Without `client_ca` clients need no certificate."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """What a server shows and accepts, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None
    """Without it clients need no certificate."""
    expires: float
    """When the certificate expires, in seconds since 1970."""


@dataclass(slots=True)
class TlsCounts:
    """Counts since the start of the server. `expires` is in seconds since 1970."""

    reloads: int = 0
    reload_errors: int = 0
    expires: float = 0.0
    """When the current certificate expires."""


class CertificateFiles:
    """The source of `Certificates` that reads files."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raises `CommandError` if they cannot be used."""
        self._files, self._seen = files, _looks(files)
        self._material = _load(files)

    def __call__(self) -> Material:
        """Return what the files have. Raises `CommandError` once for each change that cannot be used."""
        seen = _looks(self._files)
        if seen != self._seen:
            self._seen = seen
            self._material = _load(self._files)
        return self._material


class Certificates:
    """The server's certificate, replaced when its source has another one. `credentials` are for a gRPC server."""

    def __init__(self, source: Callable[[], Material]) -> None:
        """`source` is called in any thread. It raises `CommandError` if the present certificate cannot be used."""
        self.counts = TlsCounts()
        self._source = source
        self._lock = threading.Lock()  # gRPC calls from its own threads
        self._material = self._given = source()
        self.counts.expires = self._material.expires
        self.credentials: Any = grpc.dynamic_ssl_server_credentials(
            _configuration(self._material),
            self._changed_configuration,
            require_client_authentication=self._material.client_ca is not None,
        )

    def refresh(self) -> None:
        """Use another certificate if there is one. Needs no connection."""
        with self._lock:
            try:
                material = self._source()
            except CommandError as error:
                self.counts.reload_errors += 1
                problem = "; ".join(
                    item.message + (f": {item.cause}" if item.cause else "") for item in error.diagnostics
                )
                LOG.error("last_good_certificate_stays", extra={"problem": problem})
                return
            if material != self._material:
                self._material = material
                self.counts.reloads += 1
                self.counts.expires = material.expires
                ends = datetime.fromtimestamp(material.expires, UTC).isoformat(timespec="seconds")
                LOG.info("certificate_renewed", extra={"ends": ends})

    def _changed_configuration(self) -> Any:
        """The new certificate, or None if it has not changed. gRPC calls this method before each handshake."""
        self.refresh()
        with self._lock:
            if self._material is self._given:
                return None
            self._given = self._material
            return _configuration(self._given)


def _configuration(material: Material) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], root_certificates=material.client_ca
    )


def _looks(files: TlsFiles) -> tuple[FileStat | None, ...]:
    return tuple(look(path) for path in files if path is not None)


def _load(files: TlsFiles) -> Material:
    """Read the files, and check that they belong together. Raises `CommandError`."""
    certificate = _read(files.certificate, "the certificate")
    key = _read(files.key, "the key")
    client_ca = _read(files.client_ca, "the clients' CA") if files.client_ca else None
    own = _parsed(files.certificate, certificate)[0]
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's message may contain parts of the key, which is secret.
        raise _wrong(files.key, "it is not a private key in PEM form, or a password protects it") from None
    if _public(private.public_key()) != _public(own.public_key()):
        raise _wrong(files.key, f"it is not the key of `{visible(str(files.certificate))}`")
    if own.not_valid_after_utc <= datetime.now(UTC):
        raise _wrong(files.certificate, f"it expired at {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    if files.client_ca is not None and client_ca is not None:
        _parsed(files.client_ca, client_ca)
    return Material(certificate, key, client_ca, own.not_valid_after_utc.timestamp())


def _read(path: Path, what: str) -> bytes:
    return read_bounded(path, MAX_FILE, what, regular=True)


def _parsed(path: Path, content: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise _wrong(path, "it has no certificate in PEM form") from None


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _wrong(path: Path, what: str) -> CommandError:
    return wrong_usage("ADM822", f"`{visible(str(path))}` cannot be used for TLS", cause=what)
