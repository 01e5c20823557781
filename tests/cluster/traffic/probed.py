"""Runs in a pod: a process that a probe of one kind asks. It is ill while the file `/tmp/ill` is there.

    python probed.py KIND PORT          `https` takes its key and certificate from the variable `PEM`

Each HTTP request is a line on standard output.
"""

import os
import signal
import socket
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ILL = Path("/tmp/ill")  # noqa: S108 - of the container
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
"""Answers of `grpc.health.v1.Health`, serialised."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        print("GET", self.path, flush=True)
        self.send_response(500 if ILL.exists() else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing else for each request."""


def http(port: int, context: ssl.SSLContext | None = None) -> None:
    server = ThreadingHTTPServer(("", port), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def https(port: int) -> None:
    pem = Path("/tmp/pem")  # noqa: S108
    pem.write_text(os.environ["PEM"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    http(port, context)


def rpc(port: int) -> None:
    import grpc

    def check(request: bytes, context: Any) -> bytes:
        return NOT_SERVING if ILL.exists() else SERVING

    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})])
    server.add_insecure_port(f"[::]:{port}")
    server.start()
    server.wait_for_termination()


def tcp(port: int) -> None:
    listening = socket.create_server(("", port))
    listening.settimeout(0.1)
    while not ILL.exists():
        try:
            listening.accept()[0].close()
        except TimeoutError:
            continue
    listening.close()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    {"http": http, "https": https, "grpc": rpc, "tcp": tcp}[sys.argv[1]](int(sys.argv[2]))
