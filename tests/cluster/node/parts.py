"""The programs of Kubernetes on the node, with their options: all but the API server."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import tools
from tests.cluster.api_server import SERVICES
from tests.cluster.node.containers import SOCKET
from tests.cluster.node.machine import ADDRESS, ADDRESS_6, PODS
from tests.system import PATH

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.credentials import Credentials
    from tests.cluster.node.machine import Machine
    from tests.cluster.process import Running

NAME: Final = "node"
"""Of the node in the cluster."""
DOMAIN: Final = "cluster.local"
MOST_PODS: Final = 500


def controller_manager(machine: Machine, kubeconfig: Path, made: Credentials) -> Running:
    options = [
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={made.account_key}",
        f"--root-ca-file={made.ca}",
        f"--cluster-signing-cert-file={made.ca}",
        f"--cluster-signing-key-file={made.ca_key}",
        f"--service-cluster-ip-range={SERVICES}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        # As in other clusters, each controller has an account of its own: policies of admission know them by name.
        "--use-service-account-credentials",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]
    return machine.start_in_network("kube-controller-manager", [_program(tools.CONTROLLER_MANAGER), *options])


def scheduler(machine: Machine, kubeconfig: Path) -> Running:
    options = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"]
    return machine.start_in_network("kube-scheduler", [_program(tools.SCHEDULER), *options])


def proxy(machine: Machine, kubeconfig: Path) -> Running:
    """kube-proxy, which needs the node's own /run for its lock."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": NAME,
        "mode": "iptables",
        "clusterCIDR": ",".join(PODS),
        # Limits of the machine, which a namespace may not set.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "50ms", "syncPeriod": "30s"},
        "nodePortAddresses": ["primary"],
    }
    path = _config(machine, "kube-proxy", config)
    return machine.start("kube-proxy", [_program(tools.PROXY), f"--config={path}"], {"PATH": PATH})


def kubelet(machine: Machine, made: Credentials, url: str) -> Running:
    """As DESIGN has it: no cgroups of its own making, and no packet filter rules."""
    kubeconfig = made.kubeconfig("kubelet", url, made.client(f"system:node:{NAME}", "system:nodes"))
    resolver = machine.folder / "resolv.conf"
    resolver.write_text("", encoding="utf-8")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(made.ca)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": machine.cgroup,
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [ADDRESS],
        "clusterDomain": DOMAIN,
        "resolvConf": str(resolver),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "maxPods": MOST_PODS,
        "serializeImagePulls": False,
        # The disk is the machine's, and not this node's to watch.
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "syncFrequency": "10s",
    }
    path = _config(machine, "kubelet", config)
    options = [
        f"--config={path}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NAME}",
        f"--node-ip={ADDRESS},{ADDRESS_6}",
    ]
    path_variable = {"PATH": os.pathsep.join([PATH, "/usr/sbin", "/sbin"])}
    return machine.start("kubelet", [_program(tools.KUBELET), *options], path_variable)


def _program(program: tools.Program) -> str:
    return str(tools.find(program))


def _config(machine: Machine, name: str, content: dict[str, Any]) -> Path:
    path = machine.folder / f"{name}.config.json"
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    return path
