"""A gRPC server or client without a proxy, configured by an xDS server, with a view of what it was configured with.

python grpc_peer.py server ADDRESS NAME      answers test.Echo/Say with its name
python grpc_peer.py client xds:///NAME       calls test.Echo/Say without a pause

GRPC_XDS_BOOTSTRAP_CONFIG is in the environment. The first line of output is the port of the client status service. Each
line of input is answered with one line of JSON; the end of input ends the process.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc_csds


def main() -> None:
    status = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    grpc_csds.add_csds_servicer(status)
    port = status.add_insecure_port("127.0.0.1:0")
    status.start()
    print(port, flush=True)
    serve(*sys.argv[2:]) if sys.argv[1] == "server" else call(sys.argv[2])
    status.stop(None).wait()


def serve(address: str, name: str) -> None:
    def say(request: bytes, _: Any) -> bytes:
        return name.encode() + b" " + request

    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)], xds=True)
    handlers = {"Say": grpc.unary_unary_rpc_method_handler(say)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    server.add_secure_port(address, grpc.xds_server_credentials(grpc.insecure_server_credentials()))
    server.start()
    for _ in sys.stdin:
        print("{}", flush=True)
    server.stop(2.0).wait()


def call(target: str) -> None:
    """Count answers and errors since the last line of input; the time of an answer decides nothing."""
    counted: Counter[str] = Counter()
    lock, over = threading.Lock(), threading.Event()

    def loop() -> None:
        with grpc.insecure_channel(target) as channel:
            method = channel.unary_unary("/test.Echo/Say")
            while not over.is_set():
                try:
                    answer = method(b"hello", timeout=50.0).decode()
                except grpc.RpcError as error:
                    answer = f"{error.code().name}: {error.details()}"
                with lock:
                    counted[answer] += 1

    thread = threading.Thread(target=loop)
    thread.start()
    for _ in sys.stdin:
        with lock:
            said, counted = counted, Counter()
        print(json.dumps(said), flush=True)
    over.set()
    thread.join()


if __name__ == "__main__":
    main()
