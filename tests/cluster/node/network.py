"""What a cluster's network plugin and its DNS do on the node, beside kube-proxy: a process in the node's network.

python -m tests.cluster.node.network KUBECONFIG ADDRESS
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.cluster.node import dns
from tests.cluster.node.machine import PODS
from tests.cluster.node.objects import Objects
from tests.testbed import network_policies

POD_LIST = "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"
SERVICES = "/api/v1/services"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
TOOLS = dict(zip(("iptables", "ip6tables"), PODS, strict=True))
"""What loads the rules for the pods of a network."""
PAUSE_SECONDS = 0.02
"""Changes that come together are loaded together."""


def main(kubeconfig: Path, address: str) -> None:
    changed = threading.Event()
    objects = Objects(kubeconfig, (POD_LIST, NAMESPACES, SERVICES, POLICIES, SLICES), changed.set)
    known: dict[str, list[str]] = {}
    threading.Thread(target=dns.serve, args=(address, lambda: known), daemon=True).start()
    loaded: dict[str, str] = {}
    while True:
        changed.wait()
        time.sleep(PAUSE_SECONDS)
        changed.clear()
        if not objects.is_complete:
            continue
        known = dns.names(objects.of(SERVICES), objects.of(SLICES))
        for tool, network in TOOLS.items():
            found = objects.of(POD_LIST), objects.of(NAMESPACES), objects.of(POLICIES)
            text = network_policies.rules(*found, network)
            if loaded.get(tool) != text:
                _load(tool, text, is_first=tool not in loaded)
                loaded[tool] = text


def _load(tool: str, text: str, *, is_first: bool) -> None:
    """Replace the chain; the first time, every packet that the node forwards is sent through it."""
    subprocess.run([f"{tool}-restore", "--noflush", "--wait", "10"], input=text, text=True, check=True)
    if is_first:
        subprocess.run([tool, "--wait", "10", "-I", "FORWARD", "-j", network_policies.CHAIN], check=True)
    print(f"{tool}: loaded {len(text.splitlines())} lines", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
