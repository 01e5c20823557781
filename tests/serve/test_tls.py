"""Certificates over real TLS connections: which clients are accepted, and the effect of new and broken files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from cryptography import x509

from admc.base.exits import CommandError
from admc.serve.auth.tls import CertificateFiles, Certificates, TlsFiles
from tests.serve.pki import Authority, Pair
from tests.xds_server.transcript import world
from xds_server.resources.cache import SnapshotCache
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SERVER = Authority("servers")
CLIENTS = Authority("clients")


def own(**options: Any) -> Pair:
    return SERVER.issue(dns=("localhost",), **options)


def files(folder: Path, *, mutual: bool = True, pair: Pair | None = None) -> TlsFiles:
    certificate, key = (pair or own()).write(folder, "server")
    (folder / "clients.crt").write_bytes(CLIENTS.certificate)
    return TlsFiles(certificate, key, folder / "clients.crt" if mutual else None)


@contextlib.asynccontextmanager
async def serving(certificates: Certificates) -> AsyncIterator[int]:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, lambda _: "web")
    port = await server.start("127.0.0.1:0", certificates.credentials)
    try:
        yield port
    finally:
        await server.stop(0.1)


def shown(port: int) -> int:
    """The serial number of the certificate that the server shows to a new connection."""
    context = ssl.create_default_context(cadata=SERVER.certificate.decode())
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as found,
    ):
        der = found.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def serial(pair: Pair) -> int:
    return x509.load_pem_x509_certificate(pair.certificate).serial_number


async def connects(port: int, client: Pair | None) -> bool:
    """Whether a client gets as far as a connection that can carry a stream."""
    credentials = grpc.ssl_channel_credentials(
        SERVER.certificate, *((client.key, client.certificate) if client else (None, None))
    )
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        call = channel.unary_unary("/no.such/Method")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", timeout=60)
        assert caught.value.code() in {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE}
        return caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_only_clients_with_a_certificate_of_the_authority_get_in(tmp_path: Path) -> None:
    async with serving(Certificates(CertificateFiles(files(tmp_path)))) as port:
        assert await connects(port, CLIENTS.issue("spiffe://cluster.local/ns/a/sa/b"))
        assert not await connects(port, None)
        assert not await connects(port, Authority("others").issue("spiffe://cluster.local/ns/a/sa/b"))
        assert not await connects(port, CLIENTS.issue("spiffe://cluster.local/ns/a/sa/b", seconds=-60))


async def test_without_an_authority_clients_need_no_certificate(tmp_path: Path) -> None:
    async with serving(Certificates(CertificateFiles(files(tmp_path, mutual=False)))) as port:
        assert await connects(port, None)


async def test_a_new_certificate_counts_from_the_next_connection_on(tmp_path: Path) -> None:
    first, second = own(), own()
    certificates = Certificates(CertificateFiles(files(tmp_path, mutual=False, pair=first)))
    async with serving(certificates) as port:
        assert await asyncio.to_thread(shown, port) == serial(first)
        second.write(tmp_path, "server")
        assert await asyncio.to_thread(shown, port) == serial(second)
        assert (certificates.counts.reloads, certificates.counts.reload_errors) == (1, 0)


async def test_a_new_authority_of_clients_counts_too(tmp_path: Path) -> None:
    certificates = Certificates(CertificateFiles(files(tmp_path)))
    later = Authority("later")
    async with serving(certificates) as port:
        client = later.issue("spiffe://cluster.local/ns/a/sa/b")
        assert not await connects(port, client)
        (tmp_path / "clients.crt").write_bytes(later.certificate)
        assert await connects(port, client)
        assert not await connects(port, CLIENTS.issue("spiffe://cluster.local/ns/a/sa/b"))


async def test_a_broken_certificate_changes_nothing_but_the_log_and_a_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = own(), own()
    named = files(tmp_path, mutual=False, pair=first)
    certificates = Certificates(CertificateFiles(named))
    async with serving(certificates) as port:
        named.certificate.write_bytes(second.certificate)  # half of a change: the key does not fit yet
        for _ in range(3):
            assert await asyncio.to_thread(shown, port) == serial(first)
        assert certificates.counts.reload_errors == 1
        (record,) = [item for item in caplog.records if item.levelno >= logging.ERROR]
        assert record.getMessage() == "last_good_certificate_stays"
        assert "it is not the key of" in vars(record)["problem"]
        named.key.unlink()
        assert await asyncio.to_thread(shown, port) == serial(first)
        assert certificates.counts.reload_errors == 2
        named.key.write_bytes(second.key)
        assert await asyncio.to_thread(shown, port) == serial(second)
        assert certificates.counts.reloads == 1


@pytest.mark.parametrize(
    ("what", "content", "why"),
    [
        ("certificate", b"", "no certificate in PEM form"),
        (
            "certificate",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "no certificate in PEM form",
        ),
        ("key", b"secret words", "not a private key in PEM form"),
        ("key", own().key, "it is not the key of"),
        ("client_ca", b"nothing", "no certificate in PEM form"),
        ("certificate", None, "no such file or directory"),
    ],
)
def test_files_that_cannot_be_used_are_refused_at_the_start(
    tmp_path: Path, what: str, content: bytes | None, why: str
) -> None:
    named = files(tmp_path)
    path = getattr(named, what)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(CommandError) as caught:
        CertificateFiles(named)
    (found,) = caught.value.diagnostics
    assert found.code == ("ADM802" if content is None else "ADM822")
    assert why in (found.cause or "")
    assert "secret words" not in str(found)


def test_a_certificate_that_has_ended_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        CertificateFiles(files(tmp_path, pair=own(seconds=-60)))
    assert "it expired at" in (caught.value.diagnostics[0].cause or "")
