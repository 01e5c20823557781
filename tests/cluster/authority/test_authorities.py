"""Authorities as X.509 and as data of a Secret: real TLS through each step, and data that cannot be used."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from admc.kubernetes.cluster.authority.authorities import AuthorityError, advanced, from_data, to_data
from admc.kubernetes.cluster.authority.certificates import life, names_of, normal_name
from admc.kubernetes.cluster.authority.schedule import DAY, HOUR, SERVING_SECONDS, Step
from admc.serve.auth.tls import Certificates, Material
from tests.serve.pki import Authority, Pair
from tests.xds_server.client import Client
from tests.xds_server.transcript import world
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from admc.kubernetes.cluster.authority.authorities import Authorities

NAMES = ("localhost", "admc-main.admc-system.svc", "10.0.0.1")
NOW = time.time()


def made(*steps: Step) -> Authorities:
    authorities = advanced(None, Step.CREATE, "main", NAMES, NOW)
    for step in steps:
        authorities = advanced(authorities, step, "main", NAMES, NOW)
    return authorities


ROTATED = made(Step.MAKE_NEXT, Step.NOTE_SHOWN, Step.PROMOTE)
OTHER = Authority("other")
LEAF = OTHER.issue(dns=("localhost",))


def rsa_pair() -> Pair:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    valid = builder.serial_number(1).not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2046, 1, 1))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(valid.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private)


RSA = rsa_pair()


def pair(name: str, made: Pair) -> dict[str, bytes]:
    return {f"{name}.crt": made.certificate, f"{name}.key": made.key}


def test_what_was_made_is_as_it_was_read() -> None:
    for authorities in (made(), made(Step.MAKE_NEXT), made(Step.MAKE_NEXT, Step.NOTE_SHOWN), ROTATED):
        again = from_data(to_data(authorities))
        assert to_data(again) == to_data(authorities)
        assert again.trusted == authorities.trusted
        assert again.times(NAMES) == authorities.times(NAMES)
        assert "PRIVATE KEY" not in again.bundle
        assert "PRIVATE KEY" not in repr(again)


def test_a_serving_certificate_is_for_the_names_and_for_thirty_days() -> None:
    serving = made().serving.certificate
    assert names_of(serving) == set(NAMES)
    assert life(serving) == (int(NOW - HOUR), int(NOW + SERVING_SECONDS))
    assert made().times(("another.svc",)).has_names is False
    # The certificate of an authority that ends soon ends with it.
    late = NOW + 360 * DAY
    assert life(advanced(made(), Step.RENEW, "main", NAMES, late).serving.certificate).ends == int(NOW + 365 * DAY)


def test_names_are_compared_as_certificates_have_them() -> None:
    given = ("FD00::0001", "Admc.Example", "bücher.example")
    normal = [normal_name(name) for name in given]
    assert normal == ["fd00::1", "admc.example", "xn--bcher-kva.example"]
    assert advanced(None, Step.CREATE, "main", normal, NOW).times(normal).has_names


def test_the_order_of_trusted_authorities_does_not_change_when_another_one_signs() -> None:
    before = made(Step.MAKE_NEXT, Step.NOTE_SHOWN)
    assert advanced(before, Step.PROMOTE, "main", NAMES, NOW).trusted == before.trusted


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"authority.json": b""}, "`authority.json`: "),
        ({"authority.json": b'{"schema_version": 9, "next_shown": null, "former_until": null}'}, "`authority.json`: "),
        ({"signer.key": b""}, "`signer.key` is not a private key in PEM form"),
        ({"signer.key": b"secret words"}, "`signer.key` is not a private key in PEM form"),
        ({"tls.key": to_data(ROTATED)["signer.key"]}, "`tls.key` is not the EC key of `tls.crt`"),
        ({"tls.crt": b"\xff"}, "`tls.crt` is not a certificate in PEM form"),
        ({"signer.crt": made().signer.certificate_pem}, "`signer.key` is not the EC key of `signer.crt`"),
        (pair("signer", LEAF), "`signer.crt` is not the certificate of an authority"),
        (pair("signer", RSA), "`signer.key` is not the EC key of `signer.crt`"),
        (pair("tls", LEAF), "`tls.crt` is no certificate that `signer.crt` has signed"),
        ({"authority.json": b'{"schema_version": 1, "next_shown": 1e999, "former_until": null}'}, "`authority.json`: "),
        ({"authority.json": b'{"schema_version": 1, "next_shown": -1, "former_until": null}'}, "`authority.json`: "),
        ({"former.crt": b"x"}, "`former.crt` is not a certificate in PEM form"),
        ({"authority.json": b'{"schema_version": 1, "next_shown": null, "former_until": null}'}, "belong together"),
    ],
)
def test_data_that_cannot_be_used_is_refused_without_a_part_of_a_key(change: dict[str, bytes], why: str) -> None:
    data = to_data(ROTATED) | change
    with pytest.raises(AuthorityError) as caught:
        from_data(data)
    assert why in str(caught.value)
    assert "secret words" not in str(caught.value)
    assert caught.value.__cause__ is None or "secret words" not in str(caught.value.__cause__)


def test_a_serving_certificate_of_another_authority_is_refused() -> None:
    other = made()
    pair = {"tls.crt": other.serving.certificate_pem, "tls.key": other.serving.key_pem}
    with pytest.raises(AuthorityError, match=r"`tls\.crt` is no certificate that `signer\.crt` has signed"):
        from_data(to_data(ROTATED) | pair)


# ---- over TLS ----


class Shown:
    """What a server shows: the authorities of a replica."""

    def __init__(self, authorities: Authorities) -> None:
        self.authorities = authorities

    def __call__(self) -> Material:
        serving = self.authorities.serving
        return Material(serving.certificate_pem, serving.key_pem, None, life(serving.certificate).ends)


async def connects(port: int, bundle: str) -> bool:
    """Whether a client that trusts these authorities gets an answer."""
    async with Client(port, "delta", credentials=grpc.ssl_channel_credentials(bundle.encode())) as client:
        try:
            await client.send(CLUSTER)
            return await client.read() is not grpc.aio.EOF
        except (grpc.aio.AioRpcError, grpc.aio.UsageError):
            return False


async def test_a_stream_lasts_through_every_step_and_new_clients_need_no_newer_authority() -> None:
    shown = Shown(made())
    certificates = Certificates(shown)
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, lambda _: "web")
    port = await server.start("127.0.0.1:0", certificates.credentials)
    first = shown.authorities.bundle
    try:
        async with Client(port, "delta", credentials=grpc.ssl_channel_credentials(first.encode())) as client:
            await client.send(CLUSTER)
            nonce = (await client.read()).nonce
            for number, step in enumerate(
                (Step.MAKE_NEXT, Step.NOTE_SHOWN, Step.PROMOTE, Step.RENEW, Step.DROP_FORMER)
            ):
                before = shown.authorities
                shown.authorities = advanced(before, step, "main", NAMES, NOW)
                assert await connects(port, before.bundle), step
                assert await connects(port, shown.authorities.bundle), step
                # Proxies had a day to read the next authority; those that have not read it are refused from then on.
                signs_anew = step in (Step.PROMOTE, Step.RENEW, Step.DROP_FORMER)
                assert await connects(port, first) is not signs_anew, step
                await client.send(CLUSTER, nonce=nonce)
                store.publish("web", world(f"clusters a={number + 2}-"))
                nonce = (await client.read()).nonce
    finally:
        await server.stop(0.1)
    assert certificates.counts.reloads == 2
    assert certificates.counts.reload_errors == 0
