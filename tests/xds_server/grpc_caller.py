"""A gRPC client without a proxy: one call for each line of stdin, one line of stdout for each call.

python grpc_caller.py xds:///search     with GRPC_XDS_BOOTSTRAP_CONFIG in the environment
"""

from __future__ import annotations

import sys

import grpc


def main() -> None:
    with grpc.insecure_channel(sys.argv[1]) as channel:
        call = channel.unary_unary("/test.Echo/Say")
        for line in sys.stdin:
            try:
                print(call(line.strip().encode(), timeout=50).decode(), flush=True)
            except grpc.RpcError as error:
                print(f"{error.code().name}: {error.details()}", flush=True)


if __name__ == "__main__":
    main()
