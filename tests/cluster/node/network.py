"""What a cluster's network plugin and its DNS do on the node, beside kube-proxy: a process in the node's network.

python -m tests.cluster.node.network KUBECONFIG ADDRESS
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.cluster.node import dns, policies
from tests.cluster.node.objects import Objects

PODS = "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"
SERVICES = "/api/v1/services"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
TOOLS = {4: "iptables", 6: "ip6tables"}
PAUSE_SECONDS = 0.02
"""Changes that come together are loaded together."""


def main(kubeconfig: Path, address: str) -> None:
    changed = threading.Event()
    objects = Objects(kubeconfig, (PODS, NAMESPACES, SERVICES, POLICIES, SLICES), changed.set)
    known: dict[str, list[str]] = {}
    threading.Thread(target=dns.serve, args=(address, lambda: known), daemon=True).start()
    loaded: dict[int, str] = {}
    while True:
        changed.wait()
        time.sleep(PAUSE_SECONDS)
        changed.clear()
        if not objects.is_complete:
            continue
        known = dns.names(objects.of(SERVICES), objects.of(SLICES))
        for version in TOOLS:
            text = policies.rules(objects.of(PODS), objects.of(NAMESPACES), objects.of(POLICIES), version)
            if loaded.get(version) != text:
                _load(version, text, is_first=version not in loaded)
                loaded[version] = text


def _load(version: int, text: str, *, is_first: bool) -> None:
    """Replace the chain; the first time, every packet that the node forwards is sent through it."""
    tool = TOOLS[version]
    subprocess.run([f"{tool}-restore", "--noflush", "--wait", "10"], input=text, text=True, check=True)
    if is_first:
        subprocess.run([tool, "--wait", "10", "-I", "FORWARD", "-j", policies.CHAIN], check=True)
    print(f"loaded {text.count(chr(10))} lines for IPv{version}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
