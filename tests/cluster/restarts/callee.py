"""Runs in a pod: answers HTTP/1.1, HTTP/2 and gRPC, each at a port, and ends without delay on SIGTERM.

    python callee.py

Each answer says in headers which pod it is from, what the request carried of `x-met`, and whether the pod ends (its
`preStop` hook makes a file). Closing connections is left to the ADM, if there is one.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc

from admc.testbed.http2_server import H2Protocol

HTTP1, HTTP2, GRPC = 8081, 8082, 8083
GOING = Path("/tmp/going")  # noqa: S108 - of the pod
STARTED = Path("/tmp/started")  # noqa: S108 - of the pod
POD = socket.gethostname()


def said(met: Sequence[str]) -> list[tuple[str, str]]:
    return [("x-pod", POD), ("x-going", "1" if GOING.exists() else "0"), ("x-seen", ",".join(met))]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in said(self.headers.get_all("x-met") or []):
            self.send_header(name, value)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        """Nothing for each request."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


async def answer(
    _method: str, _path: str, headers: tuple[tuple[str, str], ...], _peer: str, _body: bytes
) -> tuple[int, Sequence[tuple[str, str]], bytes]:
    return 200, said([value for name, value in headers if name == "x-met"]), b"ok"


async def serve_http2() -> None:
    server = await asyncio.get_running_loop().create_server(lambda: H2Protocol(answer), "", HTTP2, backlog=256)
    await server.serve_forever()


class Call(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        met = [str(value) for name, value in details.invocation_metadata if name == "x-met"]

        def call(_request: bytes, context: grpc.ServicerContext) -> bytes:
            context.send_initial_metadata(said(met))
            return b""

        return grpc.unary_unary_rpc_method_handler(call)


if __name__ == "__main__":
    # Without it, the first process of a container goes on until it is killed, together with its proxy.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    calls = grpc.server(ThreadPoolExecutor(16), handlers=[Call()])
    calls.add_insecure_port(f"[::]:{GRPC}")
    calls.start()
    threading.Thread(target=lambda: asyncio.run(serve_http2()), daemon=True).start()
    server = Server(("", HTTP1), Handler)
    STARTED.touch()
    server.serve_forever()
