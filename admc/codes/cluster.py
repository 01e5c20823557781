"""Codes about a cluster: title, explanation, examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

PODS: Mapping[str, tuple[str, ...]] = {
    "ADM960": (
        "arguments that a program of a pod does not take",
        "`python -m admc.pod` runs in the init containers that `admc inject` writes, with the arguments that it "
        "writes. These are others: the pod's manifest was changed by hand, or its image is of another version of admc "
        "than the manifest. Write the manifest again with `admc inject`.",
        "",
        "python -m admc.pod rules --service shop/search --ingress 8082,9090 --egress 27017",
    ),
    "ADM961": (
        "a pod's packet filter cannot be used",
        "The container `admc-rules` redirects a pod's connections to its ADM with iptables, in whichever flavour works "
        "(nft or legacy), for IPv4 and, where the pod has it, for IPv6. Here the image has no iptables, the "
        "kernel has no packet filter for one of them, or the container lacks root or NET_ADMIN.",
    ),
    "ADM962": (
        "a pod's rules were not loaded",
        "The command that loads the rules failed, or the rules were not there afterwards. The message has its words. "
        "Rules that were loaded for one family stay; the pod does not start until all are loaded. What the kernel "
        "needs: `nat`, `REDIRECT`, `REJECT`, `conntrack`, `connmark`, `comment`, `addrtype` and `owner`.",
    ),
    "ADM963": (
        "the rules of another service are loaded in this pod",
        "One pod hosts one ADM. Rules of another service are not replaced: its ADM would see no connection any "
        "more. Give each service a pod of its own.",
    ),
}

API: Mapping[str, tuple[str, ...]] = {
    "ADM946": (
        "no API server can be reached with this configuration",
        "A command about a cluster needs the Kubernetes client (`pip install 'admc[cluster]'`), and an address, an "
        "authority and credentials: of a kubeconfig file, which `--kubeconfig` or KUBECONFIG names, of the service "
        "account of the pod in which admc runs, or of `~/.kube/config`. The cause says what is missing or wrong.",
    ),
}

CODES: Mapping[str, tuple[str, ...]] = {**API, **PODS}
