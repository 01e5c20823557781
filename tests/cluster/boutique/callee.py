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
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any
from urllib.parse import urlsplit

PAUSE = 0.1
"""Seconds between two requests of a connection."""
SERVING = b"\x08\x01"
"""An answer of `grpc.health.v1.Health`, serialised."""
LOCK = threading.Lock()


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


def send(connection: http.client.HTTPConnection, kind: str) -> None:
    """A connection that was closed while it was kept is no failure: the request is sent again on a new one."""
    began = time.monotonic()
    result: dict[str, Any] = {}
    for attempt in (1, 2):
        is_kept = connection.sock is not None
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if is_kept and attempt == 1 and isinstance(error, (ConnectionError, http.client.HTTPException)):
                continue
            result = {"error": f"{type(error).__name__}: {error}"}
        else:
            text = body[:200].decode(errors="replace")
            result = {"met": json.loads(body)["met"]} if answer.status == 200 else {"error": f"{answer.status} {text}"}
        break
    with LOCK:
        print(json.dumps({"began": round(began, 3), "kind": kind, **result}), flush=True)


def load(url: str) -> None:
    """One connection that is kept, and new ones."""
    parts = urlsplit(url)

    def connection() -> http.client.HTTPConnection:
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)

    def kept() -> None:
        one = connection()
        while True:
            send(one, "kept")
            time.sleep(PAUSE)

    threading.Thread(target=kept, daemon=True).start()
    while True:
        new = connection()
        send(new, "new")
        new.close()
        time.sleep(PAUSE)


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
