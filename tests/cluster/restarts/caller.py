"""Runs in a pod: sends requests to each service in each protocol, on kept and on new connections, all the time.

    python caller.py RATE SERVICE...

It prints one line of JSON for each request: when it began, its service, protocol and connection, the answer, and
whether the answer says that the connection ends.
"""

import http.client
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from h2.exceptions import ProtocolError

from tests.testbed.callers import IDLE, WIRES, Connection, RequestSpec

PORTS = {"http": 8081, "h2c": 8082, "grpc": 8083}
DONE = {"http": 200, "h2c": 200, "grpc": 0}
LOCK = threading.Lock()
CONNECTIONS = itertools.count()


def say(**found: object) -> None:
    with LOCK:
        print(json.dumps(found), flush=True)


class Caller(threading.Thread):
    """Repeats one request."""

    def __init__(self, service: str, protocol: str, kind: str, rate: float) -> None:
        super().__init__(daemon=True)
        self.spec = RequestSpec("", service, protocol, "/s/Call")
        self.kind, self.rate = kind, rate
        self.connection: Connection | None = None
        self.number = 0

    def run(self) -> None:
        while True:
            self.request()
            time.sleep(1 / self.rate)

    def request(self) -> None:
        """A connection that was closed while it was kept is no failure: the request is sent again on a new one."""
        began = time.monotonic()
        for attempt in (1, 2):
            is_kept = self.connection is not None
            try:
                self.send(began)
            except (OSError, http.client.HTTPException, ProtocolError) as error:
                self.close()
                if is_kept and attempt == 1 and isinstance(error, IDLE):
                    continue
                self.say(began, error=f"{type(error).__name__}: {error}")
            return

    def send(self, began: float) -> None:
        if self.connection is None:
            self.number = next(CONNECTIONS)
            address = (self.spec.destination, PORTS[self.spec.protocol])
            self.connection = WIRES[self.spec.protocol](lambda: socket.create_connection(address, 10))
        response = self.connection.send(self.spec, "")
        headers = dict(response.headers)
        answer = {"pod": headers.get("x-pod", ""), "going": headers.get("x-going") == "1", "last": response.last}
        if response.status == DONE[self.spec.protocol]:
            self.say(began, met=[each for each in headers.get("x-seen", "").split(",") if each], **answer)
        else:
            error = f"status {response.status}: {headers.get('x-admc-failed', response.reason)[:150]}"
            self.say(began, error=error, status=response.status, **answer)
        if response.last or self.kind == "new":
            self.close()

    def say(self, began: float, **found: object) -> None:
        where = {"service": self.spec.destination, "protocol": self.spec.protocol, "connection": self.number}
        say(began=round(began, 3), kind=self.kind, **where, **found)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


if __name__ == "__main__":
    # Without it, the first process of a container goes on until it is killed, together with its proxy.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    Path("/tmp/started").touch()  # noqa: S108 - of the pod
    callers = [
        Caller(service, protocol, kind, float(sys.argv[1]))
        for service in sys.argv[2:]
        for protocol in PORTS
        for kind in ("kept", "new")
    ]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
