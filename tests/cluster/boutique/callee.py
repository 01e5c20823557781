"""Runs in a pod of the boutique: what its probes ask, or the load on its frontend.

python callee.py http PORT      answers with the values of the header that a policy adds
python callee.py grpc PORT      answers health checks
python callee.py tcp PORT       accepts connections
python callee.py await URL      ends once URL answers
python callee.py load URL       sends requests, and prints a line of JSON for each
"""

import http.client
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any
from urllib.parse import urlsplit

RATE = 10.0
"""Requests a second of each connection."""
SERVING = b"\x08\x01"
"""An answer of `grpc.health.v1.Health`, serialised."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"met": self.headers.get_all("x-met") or []}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing for each request."""


def serve_http(port: str) -> None:
    ThreadingHTTPServer(("", int(port)), Handler).serve_forever()


def serve_grpc(port: str) -> None:
    import grpc

    def check(request: bytes, context: Any) -> bytes:
        return SERVING

    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})])
    server.add_insecure_port(f"[::]:{port}")
    server.start()
    server.wait_for_termination()


def serve_tcp(port: str) -> None:
    ThreadingTCPServer(("", int(port)), BaseRequestHandler).serve_forever()


def wait_for(url: str) -> None:
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - the test gives the URL
                return
        except (OSError, http.client.HTTPException) as error:
            print(f"{url}: {error}", flush=True)
            time.sleep(1)


def load(url: str) -> None:
    from tests.cluster.traffic.caller import run

    parts = urlsplit(url)
    run(parts.hostname or "", parts.port or 80, RATE)


MODES: dict[str, Callable[[str], None]] = {
    "http": serve_http,
    "grpc": serve_grpc,
    "tcp": serve_tcp,
    "await": wait_for,
    "load": load,
}

if __name__ == "__main__":
    # Else the first process of a container goes on until it is killed, together with its proxy.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    MODES[sys.argv[1]](sys.argv[2])
