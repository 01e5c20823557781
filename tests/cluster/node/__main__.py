"""A cluster of one node, to use by hand:

    python -m tests.cluster.node                    starts it, says so, and ends it again
    python -m tests.cluster.node --keep             keeps it until Ctrl-C, and prints what to type in another shell
    python -m tests.cluster.node --keep --images    with the images `busybox:test`, `envoy:test` and `admc:test`

Needs root and what `make tools` builds.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time

from tests.cluster.node import images
from tests.cluster.node.cluster import cluster
from tests.cluster.process import StartError
from tests.cluster.tools import KUBECTL, MissingError, find


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.node")
    parser.add_argument("--keep", action="store_true", help="until Ctrl-C")
    parser.add_argument("--images", action="store_true", help="import busybox:test, envoy:test and admc:test")
    given = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    try:
        with cluster() as node:
            print(f"the node is ready after {time.monotonic() - began:.1f} s", flush=True)
            if given.images:
                node.load([images.busybox(), images.envoy(), images.python()])
                print("imported: busybox:test, envoy:test, admc:test")
            if given.keep:
                print(f"export KUBECONFIG={node.kubeconfig}")
                print(f"{find(KUBECTL)} get pods --all-namespaces")
                print(f"nsenter --target {node.machine.pid} --net --mount --pid    # a shell on the node")
                print(f"KUBECONFIG={node.inside}    # for programs there")
                print(f"logs: {node.folder}/logs, {node.folder}/*.log", flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()
    except (MissingError, StartError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
