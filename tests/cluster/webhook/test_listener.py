"""The HTTPS listener: what it answers to requests of any form, over TLS whose certificate is replaced while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import socket
import ssl
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import aiohttp
import pytest

from admc.base.exits import CommandError
from admc.kubernetes.cluster.webhook import listener
from admc.kubernetes.cluster.webhook.counts import WebhookCounts
from admc.kubernetes.cluster.webhook.listener import CONNECTIONS, IN_FLIGHT, MAX_REVIEW, PATH, Webhook
from admc.serve.auth.tls import Material
from tests.cluster.webhook.reviews import KNOWN, content, patched, pod, response_in
from tests.serve.pki import Authority, Pair
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from admc.kubernetes.cluster.webhook.review import Known

JSON = {"Content-Type": "application/json"}


def material(pair: Pair) -> Material:
    return Material(pair.certificate, pair.key, None, time.time() + 3600)


@dataclass
class Running:
    port: int
    authority: Authority
    counts: WebhookCounts
    material: Material
    known: Known | None = KNOWN
    ended: list[BaseException] = field(default_factory=list)

    def trusting(self, authority: Authority | None = None) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=(authority or self.authority).certificate.decode())

    def client(self, authority: Authority | None = None) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self.trusting(authority), force_close=True)
        return aiohttp.ClientSession(f"https://localhost:{self.port}", connector=connector)

    async def post(self, sent: bytes, *, path: str = PATH, method: str = "POST", **headers: str) -> tuple[int, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client() as client:
            answer = await client.request(method, path, data=io.BytesIO(sent), headers={**JSON, **named})
            return answer.status, await answer.read()

    def outcomes(self) -> dict[str, int]:
        return {str(outcome): number for outcome, number in self.counts.reviews.items()}

    async def raw(self, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("localhost", self.port, ssl=self.trusting())
        with contextlib.closing(writer):
            writer.write(sent)
            return await reader.read()


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    authority, counts, port = Authority(), WebhookCounts(), free_port()
    it = Running(port, authority, counts, material(authority.issue(dns=("localhost",))))
    webhook = Webhook(lambda: it.known, counts)
    listening = asyncio.create_task(webhook.listen("127.0.0.1", port, lambda: it.material))
    while True:
        with contextlib.suppress(OSError):
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
            break
        assert not listening.done(), listening.result()
        await asyncio.sleep(0.01)
    yield it
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening


async def test_a_review_is_answered(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    status, body = await running.post(content(pod()), path=f"{PATH}?timeout=2s")
    assert status == 200
    assert [item["name"] for item in patched(pod(), body)["spec"]["initContainers"]] == [
        "admc-rules",
        "admc-proxy",
        "admc-wait",
    ]
    assert (await running.post(content(pod("other"))))[0] == 200
    status, body = await running.post(content(pod(hostNetwork=True)))
    assert status == 200
    assert "ADM922" in response_in(body)["warnings"][0]
    assert running.outcomes() == {"injected": 1, "unchanged": 1, "warned": 1}
    assert sum(running.counts.seconds.counts) == 3
    events = [(record.getMessage(), vars(record).get("pod")) for record in caplog.records if "pod" in vars(record)]
    assert events == [("pod_injected", "shop/rate-7d9f4-"), ("pod_not_injected", "shop/rate-7d9f4-")]


@pytest.mark.parametrize(
    ("sent", "headers", "status", "why"),
    [
        (b"", {}, 400, "the content is no JSON"),
        (b"{}", {}, 400, "and not `AdmissionReview`"),
        (content(pod()).replace(b"k8s.io/v1", b"k8s.io/v1beta1"), {}, 400, "`admission.k8s.io/v1beta1`, and not"),
        (b"[" * (3 << 20), {}, 400, "the content is no JSON"),
        (content(pod()), {"Content_Type": "text/plain"}, 415, "must be `application/json`"),
        (content(pod()), {"Content_Encoding": "gzip"}, 415, "without an encoding"),
    ],
)
async def test_what_is_no_review_gets_a_sentence(
    running: Running, sent: bytes, headers: dict[str, str], status: int, why: str
) -> None:
    answered, body = await running.post(sent, **headers)
    assert answered == status
    assert why in body.decode()
    assert running.outcomes() == {"failed": 1}
    assert (await running.post(content(pod())))[0] == 200


async def test_a_large_pod_is_injected(running: Running) -> None:
    large = pod()
    large["metadata"]["annotations"] = {"large": "x" * (3 << 20)}
    status, body = await running.post(content(large))
    assert (status, running.outcomes()) == (200, {"injected": 1})
    assert patched(large, body)["metadata"]["annotations"]["large"] == "x" * (3 << 20)


async def test_the_largest_review_is_answered_and_a_larger_one_is_not_read(running: Running) -> None:
    """The client sends all of it, as the API server does."""

    def of(size: int) -> bytes:
        empty = pod()
        empty["metadata"]["annotations"] = {"large": ""}
        empty["metadata"]["annotations"]["large"] = "x" * (size - len(content(empty)))
        return content(empty)

    assert (len(of(MAX_REVIEW)), len(of(MAX_REVIEW + 1))) == (MAX_REVIEW, MAX_REVIEW + 1)
    status, body = await running.post(of(MAX_REVIEW))
    assert (status, response_in(body)["allowed"]) == (200, True)
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # it closes the connection, and reads no more
        status, body = await running.post(of(MAX_REVIEW + 1))
        assert (status, body) == (413, b"the review has more than 4 MiB\n")
    assert running.outcomes() == {"injected": 1, "failed": 1}
    assert (await running.post(content(pod())))[0] == 200, "no bytes are counted as in flight"


async def test_other_paths_and_methods(running: Running) -> None:
    assert (await running.post(b"", path="/"))[0] == 404
    assert (await running.post(b"", method="GET"))[0] == 405
    assert (await running.post(b"", method="PUT"))[0] == 405
    answer = await running.raw(b"nonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 400")
    assert b"Server: admc\r\n" in answer
    head = b"POST /inject HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    answer = await running.raw(head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 411")
    answer = await running.raw(head + b"Content-Length: %d\r\n\r\n" % (MAX_REVIEW + 1))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"the review has more than 4 MiB" in answer


async def test_before_everything_has_been_read_there_is_no_answer(running: Running) -> None:
    running.known = None
    status, body = await running.post(content(pod()))
    assert (status, body) == (503, b"the `Injection` objects have not been read yet\n")
    running.known = KNOWN
    assert (await running.post(content(pod())))[0] == 200


async def test_a_client_that_sends_half_a_review_gets_no_more_than_two_seconds(running: Running) -> None:
    began = time.monotonic()
    head = b"POST /inject HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    answer = await running.raw(head)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"there was no answer after 2 s" in answer
    assert time.monotonic() - began >= 2


async def test_bytes_in_flight_are_bounded(running: Running) -> None:
    size = MAX_REVIEW
    head = f"POST /inject HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    hanging = [asyncio.create_task(running.raw(head.encode())) for _ in range(IN_FLIGHT // size)]
    await asyncio.sleep(0.5)
    status, body = await running.post(content(pod()))
    assert (status, body) == (503, b"too many reviews are being answered\n")
    assert all(answer.startswith(b"HTTP/1.1 503") for answer in await asyncio.gather(*hanging))
    assert (await running.post(content(pod())))[0] == 200


async def test_connections_are_bounded(running: Running) -> None:
    opened = [
        await asyncio.open_connection("localhost", running.port, ssl=running.trusting())
        for _ in range(CONNECTIONS + 20)
    ]
    assert (await running.post(content(pod())))[0] == 200
    assert [await reader.read() for reader, _ in opened[:20]] == [b""] * 20
    for _, writer in opened:
        writer.transport.abort()


async def test_a_renewed_certificate_is_shown_without_a_restart(running: Running) -> None:
    other = Authority("other")
    assert (await running.post(content(pod())))[0] == 200
    running.material = material(other.issue(dns=("localhost",)))
    async with running.client() as client:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.post(PATH, data=content(pod()), headers=JSON)
    async with running.client(other) as client:
        assert (await client.post(PATH, data=content(pod()), headers=JSON)).status == 200


async def test_a_client_that_names_no_server_gets_the_newest_certificate(running: Running) -> None:
    def shown() -> bytes | None:
        lax = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        lax.check_hostname, lax.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", running.port), timeout=10) as plain,
            lax.wrap_socket(plain) as wrapped,
        ):
            return wrapped.getpeercert(binary_form=True)

    for _ in range(2):
        running.material = material(running.authority.issue(dns=("localhost",)))
        newest = ssl.PEM_cert_to_DER_cert(running.material.certificate.decode())
        assert await asyncio.to_thread(shown) == newest


async def test_a_certificate_that_cannot_be_used_leaves_the_last_one(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    good, other = running.material, running.authority.issue(dns=("localhost",))
    running.material = replace(good, key=other.key)
    for _ in range(2):
        assert (await running.post(content(pod())))[0] == 200
    assert [record.getMessage() for record in caplog.records].count("last_good_certificate_stays") == 1
    assert "PRIVATE" not in caplog.text


async def test_a_client_that_does_not_trust_the_certificate_is_counted_and_logged(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    def shake_hands() -> None:
        trusting = running.trusting(Authority("stranger"))
        with (
            socket.create_connection(("localhost", running.port), timeout=10) as plain,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            trusting.wrap_socket(plain, server_hostname="localhost")

    for _ in range(3):
        await asyncio.to_thread(shake_hands)
    while running.counts.refusals < 3:
        await asyncio.sleep(0.01)
    (record,) = (record for record in caplog.records if record.getMessage() == "webhook_handshake_failed")
    assert vars(record)["why"] == "TLSV1_ALERT_UNKNOWN_CA"
    assert "`caBundle`" in vars(record)["text"]


async def test_tls_before_1_2_and_plain_text_are_refused(running: Running) -> None:
    old = running.trusting()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("localhost", running.port, ssl=old)
    reader, writer = await asyncio.open_connection("localhost", running.port)
    writer.write(b"POST /inject HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"HTTP" not in await reader.read()
    writer.close()


async def test_a_port_that_is_taken_ends_it(running: Running) -> None:
    webhook = Webhook(lambda: KNOWN, WebhookCounts())
    with pytest.raises(CommandError) as refused:
        await webhook.listen("127.0.0.1", running.port, lambda: running.material)
    (finding,) = refused.value.diagnostics
    assert (finding.code, finding.message) == ("ADM825", f"cannot listen at `127.0.0.1:{running.port}`")
    assert "`--webhook` takes another address" in str(finding.hint)


async def test_a_bug_is_an_error_500_and_counts_as_failed(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(listener, "review", fail)
    status, body = await running.post(content(pod()))
    assert status == 500
    assert b"Traceback" not in body
    assert running.outcomes() == {"failed": 1}
    assert "ZeroDivisionError" in caplog.text


async def test_the_counts_are_metrics(running: Running) -> None:
    await running.post(content(pod()))
    found = {sample.name: sample.value for metric in running.counts.metrics() for sample in metric.samples}
    assert found["admc_webhook_seconds_count"] == 1
    assert found["admc_webhook_tls_refusals_total"] == 0
    (reviews, *_) = running.counts.metrics()
    by_outcome = {sample.labels["outcome"]: sample.value for sample in reviews.samples}
    assert by_outcome == {"injected": 1, "unchanged": 0, "warned": 0, "failed": 0}
    assert json.dumps(running.outcomes()) == '{"injected": 1}'
