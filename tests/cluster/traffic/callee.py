"""Runs in a pod: answers with how often a request has the header that the policy adds, and says so on standard output.

python callee.py PORT
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

GOING = Path("/tmp/going")  # noqa: S108 - of the pod
"""The pod terminates: clients are to send their next requests elsewhere."""
STARTED = Path("/tmp/started")  # noqa: S108 - of the pod
"""It listens."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"met": self.headers.get_all("x-met") or []}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        if GOING.exists():
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing for each request."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


if __name__ == "__main__":
    # Else the first process of a container goes on until it is killed, together with its proxy.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server = Server(("", int(sys.argv[1])), Handler)
    STARTED.touch()
    server.serve_forever()
