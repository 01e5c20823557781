"""The HTTP endpoints of a server, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from admc.base.exits import CommandError
from admc.serve.observe import http
from admc.serve.observe.status import ServerPhase, Status, from_json
from tests.serve.server_process import SECONDS
from tests.serve.test_status import serving as status_of
from tests.serve.view_server import Bed, running
from xds_server.resources.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Awaitable


async def test_liveness_and_readiness_differ() -> None:
    async with running() as bed:
        for phase, why, ready in [
            (
                ServerPhase.STARTING,
                "the program has not been compiled yet",
                (503, "starting: the program has not been compiled yet\n"),
            ),
            (ServerPhase.SERVING, "", (200, "serving\n")),
            (ServerPhase.SERVING, "the program is wrong now", (200, "serving: the program is wrong now\n")),
            (ServerPhase.DRAINING, "", (503, "draining\n")),
        ]:
            bed.status = status_of(phase=phase, why=why)
            assert await bed.get("/readyz") == ready
            assert await bed.get("/healthz") == (200, "alive\n")


async def test_a_replica_that_stands_by_is_ready_once_it_is_prepared() -> None:
    async with running() as bed:
        row = replace(status_of(phase=ServerPhase.STARTING).server, role="standby", holder="admc-1_ab")
        bed.status = replace(status_of(), server=row)
        says = "this replica stands by; `admc-1_ab` is active\n"
        assert await bed.get("/readyz") == (503, says)
        bed.is_prepared = True
        assert await bed.get("/readyz") == (200, says)
        # One that drains is not, whatever it has prepared.
        bed.status = replace(bed.status, server=replace(row, phase=ServerPhase.DRAINING))
        assert (await bed.get("/readyz"))[0] == 503


async def test_another_view_counts_from_the_next_request_on() -> None:
    first, second = Bed(), Bed()
    second.status = status_of(phase=ServerPhase.DRAINING)
    server = await http.serve(first.view(), "127.0.0.1", 0)
    try:
        first.port = server.address[1]
        assert await first.get("/readyz") == (200, "serving\n")
        server.show(second.view())
        assert await first.get("/readyz") == (503, "draining\n")
        assert from_json((await first.get("/status.json"))[1].encode()) == second.status
    finally:
        await server.stop()


async def test_the_status_is_the_published_document() -> None:
    async with running() as bed:
        code, text = await bed.get("/status.json")
        assert code == 200
        assert from_json(text.encode()) == bed.status


async def test_a_large_status_blocks_no_other_request_and_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    go, made, asked = threading.Event(), [], []
    get = http._SharedDocument.get

    def slowly(status: Status) -> bytes:
        made.append(status)
        go.wait(SECONDS)
        return b"{}"

    def counted(document: http._SharedDocument) -> Awaitable[bytes]:
        asked.append(document)
        return get(document)

    monkeypatch.setattr(http, "to_json", slowly)
    monkeypatch.setattr(http._SharedDocument, "get", counted)
    async with running() as bed:
        asking = [asyncio.create_task(bed.get("/status.json")) for _ in range(5)]
        async with asyncio.timeout(SECONDS):
            while not made or len(asked) < len(asking):
                await asyncio.sleep(0.01)
            assert (await bed.get("/healthz"))[0] == 200
        asking.pop(0).cancel()
        go.set()
        assert await asyncio.gather(*asking) == [(200, "{}")] * 4
        assert len(made) == 1
        assert await bed.get("/status.json") == (200, "{}")
        assert len(made) == 2


async def test_nothing_else_is_answered() -> None:
    async with running() as bed:
        assert (await bed.get("/"))[0] == 404
        assert (await bed.get("/status.json/../x"))[0] == 404
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert (await bed.get("/metrics", method))[0] == 405
        assert await bed.get("/healthz", "HEAD") == (200, "")


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost", 200),
        ("LocalHost:80", 200),
        ("127.0.0.1:18001", 200),
        ("127.8.8.8", 200),
        ("[::1]:18001", 200),
        ("rebound.example", 421),
        ("rebound.example:18001", 421),
        ("localhost.rebound.example", 421),
        ("127.0.0.1.rebound.example", 421),
        ("10.0.0.1", 421),
        ("[::1", 200),
        ("", 421),
    ],
)
async def test_on_loopback_no_page_of_a_browser_gets_an_answer_under_its_own_name(host: str, code: int) -> None:
    async with running() as bed:
        for path in ("/healthz", "/metrics", "/status.json"):
            reader, writer = await asyncio.open_connection("127.0.0.1", bed.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == str(code).encode()
            writer.close()


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("10.0.0.1:18001", 200),
        ("[fd00::1]:18001", 200),
        ("127.0.0.1", 200),
        ("localhost:18001", 200),
        ("admc.admc-system.svc", 200),
        ("ADMC.admc-system.svc.:18001", 200),
        ("rebound.example", 421),
        ("admc.admc-system.svc.rebound.example", 421),
        ("10.0.0.1.rebound.example:18001", 421),
        ("0x7f000001", 421),
        ("2130706433", 421),
        ("", 421),
    ],
)
async def test_beyond_loopback_the_host_is_an_address_or_a_name_that_was_given(host: str, code: int) -> None:
    server = await http.serve(Bed().view(), "0.0.0.0", 0, ["admc.Admc-System.svc"])
    try:
        for path in ("/healthz", "/metrics", "/status.json"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address[1])
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == str(code).encode()
            writer.close()
    finally:
        await server.stop()


async def test_on_loopback_a_name_can_be_given_too() -> None:
    server = await http.serve(Bed().view(), "127.0.0.1", 0, ["admc.internal"])
    try:
        for host, code in (("admc.internal:80", b"200"), ("other.internal", b"421")):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address[1])
            writer.write(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == code
            writer.close()
    finally:
        await server.stop()


@pytest.mark.parametrize(
    "asked", ["GET /metrics HTTP/1.1", "GET /readyz HTTP/1.1", "POST /x HTTP/1.1", "GET / HTTP/7", "nonsense"]
)
async def test_no_response_names_the_libraries(asked: str) -> None:
    async with running() as bed:
        reader, writer = await asyncio.open_connection("127.0.0.1", bed.port)
        writer.write(f"{asked}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head = (await reader.read()).partition(b"\r\n\r\n")[0].decode()
        writer.close()
        assert [line for line in head.splitlines() if line.startswith("Server:")] == ["Server: admc"]
        assert "aiohttp" not in head


async def test_metrics_can_be_scraped() -> None:
    async with running() as bed:
        bed.xds.pushes[CLUSTER] += 3
        bed.xds.rejects[CLUSTER] += 1
        bed.xds.connected = 2
        bed.xds.denials["unmapped"] += 4
        bed.xds.convergence.observe(0.02)
        bed.xds.convergence.observe(100.0)
        bed.counts.compile_errors = 5
        bed.tls.reload_errors = 6
        bed.counts.rollout_errors = 7
        code, text = await bed.get("/metrics")
        assert code == 200
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        for name, value in {
            ("admc_xds_pushes_total", "Cluster"): 3,
            ("admc_xds_rejects_total", "Cluster"): 1,
            ("admc_xds_rejects_total", "Listener"): 0,
            ("admc_xds_denials_total", "certificate"): 0,
            ("admc_xds_streams_total", "closed"): 0,
            ("admc_xds_connected_clients",): 2,
            ("admc_xds_denials_total", "unmapped"): 4,
            ("admc_proxy_convergence_seconds_bucket", "0.01"): 0,
            ("admc_proxy_convergence_seconds_bucket", "0.025"): 1,
            ("admc_proxy_convergence_seconds_bucket", "60.0"): 1,
            ("admc_proxy_convergence_seconds_bucket", "+Inf"): 2,
            ("admc_proxy_convergence_seconds_count",): 2,
            ("admc_compile_errors_total",): 5,
            ("admc_problem",): 1,
            ("admc_rollout_under_way",): 0,
            ("admc_tls_reload_errors_total",): 6,
            ("admc_rollout_errors_total",): 7,
            ("admc_tls_certificate_expiry_timestamp_seconds",): 5,
            ("admc_ready",): 1,
            ("admc_adms",): 2,
            ("admc_adms_without_nodes",): 1,
            ("admc_nodes_out_of_sync",): 1,
        }.items():
            assert found[name] == value, name
        assert found["process_open_fds",] > 0


@pytest.mark.long
async def test_a_client_with_thousands_of_requests_blocks_no_other_client() -> None:
    """Metrics take half a millisecond: to build them for each of these requests would take seconds."""
    async with running() as bed, contextlib.AsyncExitStack() as stack:
        asked = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50
        readers = []
        for _ in range(http.CONNECTIONS - 4):
            reader, writer = await asyncio.open_connection("127.0.0.1", bed.port)
            stack.callback(writer.close)
            writer.write(asked)
            readers.append(asyncio.create_task(_answers(reader, 50)))
        while not bed.made:
            await asyncio.sleep(0)
        before = bed.made
        assert await bed.get("/healthz") == (200, "alive\n")
        # It gets its response at its turn, not after those thousands.
        assert bed.made - before < 50
        assert await asyncio.gather(*readers) == [50] * len(readers)
        # Requests that wait share one document.
        assert bed.made < 50 * len(readers) / 4


async def _answers(reader: asyncio.StreamReader, wanted: int) -> int:
    """How many responses arrived, at most `wanted`."""
    seen = 0
    async with asyncio.timeout(SECONDS):
        while seen < wanted and (line := await reader.readline()):
            seen += line.startswith(b"HTTP/1.1 200")
    return seen


async def test_every_metric_is_documented() -> None:
    from pathlib import Path

    documented = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    async with running() as bed:
        for counter in (
            bed.xds.pushes,
            bed.xds.pushed_bytes,
            bed.xds.requests,
            bed.xds.acknowledgements,
            bed.xds.rejects,
        ):
            counter[CLUSTER] += 1
        bed.xds.streams["closed"] += 1
        bed.xds.denials["unknown"] += 1
        _, text = await bed.get("/metrics")
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
        if family.name.startswith("admc_")
    }
    assert {name for name in names if f"`{name}" not in documented} == set()


async def test_metrics_are_as_prometheus_wants_them() -> None:
    async with running() as bed:
        _, text = await bed.get("/metrics")
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type in {"counter", "gauge", "histogram"}, family.name
        names = {sample.name for sample in family.samples}
        if family.type == "counter":
            assert names == {f"{family.name}_total"}
        elif family.type == "gauge":
            assert not family.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert not any(unit in family.name for unit in ("milliseconds", "_ms", "kilobytes", "minutes"))


async def test_the_gauge_of_rollouts_names_both_of_its_causes() -> None:
    async with running() as bed:
        _, text = await bed.get("/metrics")
    described = {family.name: family.documentation for family in text_string_to_metric_families(text)}
    for cause in ("rollout to another plan", "redirection or a NetworkPolicy of it is not confirmed"):
        assert cause in described["admc_rollout_under_way"]


async def test_malformed_requests_and_silent_clients_block_no_other_client(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as bed, contextlib.AsyncExitStack() as stack:
        for _ in range(http.CONNECTIONS + 20):
            _, writer = await asyncio.open_connection("127.0.0.1", bed.port)
            stack.callback(writer.close)
        assert (await bed.get("/healthz"))[0] == 200
        for rubbish in (
            b"\x16\x03\x01\x02\x00",
            b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
            b"GET / HTTP/9\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", bed.port)
            stack.callback(writer.close)
            with contextlib.suppress(ConnectionError):
                writer.write(rubbish)
                await asyncio.wait_for(reader.read(), SECONDS)
        assert (await bed.get("/healthz"))[0] == 200
    assert "Traceback" not in caplog.text


async def test_silent_connections_give_way_to_new_ones() -> None:
    async with running() as bed, contextlib.AsyncExitStack() as stack:
        first, writer = await asyncio.open_connection("127.0.0.1", bed.port)
        stack.callback(writer.close)
        for _ in range(http.CONNECTIONS):
            _, writer = await asyncio.open_connection("127.0.0.1", bed.port)
            stack.callback(writer.close)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(first.read(), SECONDS) == b""
        assert (await bed.get("/healthz"))[0] == 200


async def test_two_servers_do_not_share_an_address() -> None:
    async with running() as bed:
        with pytest.raises(CommandError) as caught:
            await http.serve(bed.view(), "127.0.0.1", bed.port)
        (found,) = caught.value.diagnostics
        assert (found.code, found.message) == ("ADM825", f"cannot listen at `127.0.0.1:{bed.port}`")
        assert found.cause == "address already in use"
        assert f"`admc status --server http://127.0.0.1:{bed.port}` shows its state" in (found.hint or "")


async def test_an_address_that_cannot_be_is_refused_in_the_systems_words() -> None:
    async with running() as bed:
        with pytest.raises(CommandError) as caught:
            await http.serve(bed.view(), "::2", 1)
        (found,) = caught.value.diagnostics
        assert (found.message, found.cause) == ("cannot listen at `[::2]:1`", "cannot assign requested address")
