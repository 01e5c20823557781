"""`admc status`, with real and with other servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from admc.serve.observe import http
from admc.serve.observe.status import from_json
from tests.serve.pki import Authority
from tests.serve.server_process import SECONDS
from tests.serve.test_status import client
from tests.serve.test_status import serving as status_of
from tests.serve.view_server import Bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bed() -> Iterator[Bed]:
    """The server in a loop of its own: the command is not asynchronous."""
    found: Bed = Bed()
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        server = await http.serve(found.view(), "127.0.0.1", 0)
        found.port = server.address[1]
        started.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert started.wait(SECONDS)
    yield found
    loop.call_soon_threadsafe(stop.set)
    thread.join(SECONDS)
    loop.close()


def test_the_table_and_the_document(bed: Bed, capsys: pytest.CaptureFixture[str]) -> None:
    where = f"http://127.0.0.1:{bed.port}/"
    assert main(["status", "--server", where]) == 0
    shown = capsys.readouterr().out
    assert "search  s-1" in shown
    assert "no proxy is connected" in shown
    assert main(["status", "--server", where, "--format", "json"]) == 0
    assert from_json(capsys.readouterr().out.encode()) == bed.status
    assert main(["status", "--server", where, "--detailed-exitcode"]) == 2
    bed.status = status_of(client("search", "s-1"), client("geo", "g-1"))
    assert main(["status", "--server", where, "--detailed-exitcode"]) == 0


@contextlib.contextmanager
def answering(what: bytes) -> Iterator[int]:
    """A server that sends the given bytes to its first client."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(what)

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join(SECONDS)


def body(content: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(content) + content


@pytest.mark.parametrize(
    ("answer", "code", "cause"),
    [
        (b"", "ADM823", "the server does not speak HTTP"),
        (b"SSH-2.0-x\r\n", "ADM823", "the server does not speak HTTP"),
        (b"HTTP/1.1 404 no\r\n\r\n", "ADM823", "the response has HTTP status 404"),
        (b"HTTP/1.1 302 no\r\nlocation: http://127.0.0.1:1/\r\n\r\n", "ADM823", "the response has HTTP status 302"),
        (b"HTTP/1.1 503 no\r\n\r\n", "ADM823", "the response has HTTP status 503"),
        (body(b"<html>"), "ADM824", "line 1 is not JSON; the file may be cut short"),
        (body(b'{"schema_version": 99}'), "ADM824", "it has schema version 99, and this admc reads 3"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{", "ADM824", "line 1 is not JSON; the file may be cut short"),
    ],
)
def test_other_servers(answer: bytes, code: str, cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(answer) as port:
        assert main(["status", "--server", f"http://127.0.0.1:{port}", "--format", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (found["code"], found["cause"]) == (code, cause)


def test_https_to_a_server_without_tls(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"HTTP/1.1 400 no\r\n\r\n") as port:
        assert main(["status", "--server", f"https://127.0.0.1:{port}"]) == 1
    assert "does not speak TLS; `--ops` is plain HTTP" in capsys.readouterr().err


def test_an_untrusted_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority().issue(dns=("localhost",)).write(tmp_path, "server"))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def shake() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                context.wrap_socket(connection, server_side=True)

        thread = threading.Thread(target=shake)
        thread.start()
        assert main(["status", "--server", f"https://localhost:{server.getsockname()[1]}"]) == 1
        thread.join(SECONDS)
    assert "its certificate is not trusted here: " in capsys.readouterr().err


def test_no_server_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert main(["status", "--server", f"http://127.0.0.1:{port}"]) == 1
    said = capsys.readouterr().err
    assert f"the server at `http://127.0.0.1:{port}` does not answer" in said
    assert "connection refused" in said


@pytest.mark.parametrize(
    "where",
    ["127.0.0.1:18001", "ftp://x", "http://", "http://a:b@x/", "http://x:99999", "http://x/?y", "http://x\x1b"],
)
def test_an_invalid_address(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--server", where]) == 1
    assert "is not the address of a server" in capsys.readouterr().err


def test_the_size_of_a_response_is_limited(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import admc.cli.status as command

    monkeypatch.setattr(command, "MAX_BYTES", 1_000)
    with answering(body(b" " * 5_000)) as port:
        assert main(["status", "--server", f"http://127.0.0.1:{port}"]) == 1
    assert "the response has more than" in capsys.readouterr().err
