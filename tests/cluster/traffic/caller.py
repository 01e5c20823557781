"""Runs in a pod: sends requests all the time, on kept and on new connections, and prints one line of JSON for each.

    python caller.py HOST PORT RATE

A line has when the request began, on the clock of the machine that all pods share, the values of the header that the
receiver saw, or the error.
"""

import http.client
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

LOCK = threading.Lock()


def say(began: float, **found: object) -> None:
    with LOCK:
        print(json.dumps({"began": round(began, 3), **found}), flush=True)


def request(connection: http.client.HTTPConnection, kind: str) -> None:
    """A connection that was closed while it was kept is no failure: the request is sent again on a new one."""
    began = time.monotonic()
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
            say(began, kind=kind, error=f"{type(error).__name__}: {error}")
            return
        if answer.status == 200:
            say(began, kind=kind, met=json.loads(body)["met"])
        else:
            say(began, kind=kind, error=f"status {answer.status}: {body[:150].decode(errors='replace')}")
        return


def kept(host: str, port: int, rate: float) -> None:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    while True:
        request(connection, "kept")
        time.sleep(1 / rate)


def new(host: str, port: int, rate: float) -> None:
    while True:
        connection = http.client.HTTPConnection(host, port, timeout=10)
        request(connection, "new")
        connection.close()
        time.sleep(1 / rate)


def run(host: str, port: int, rate: float) -> None:
    """Send on one connection that is kept, and on new ones. The first request is sent at once: a policy has to hold for
    it already."""
    threads = [threading.Thread(target=send, args=(host, port, rate), daemon=True) for send in (new, kept)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    # Else the first process of a container goes on until it is killed, together with its proxy.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    Path("/tmp/started").touch()  # noqa: S108 - of the pod
    run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
