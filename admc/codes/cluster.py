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

FACTS: Mapping[str, tuple[str, ...]] = {
    "ADM940": (
        "the addresses of a service are not known in the cluster",
        "A service of the program is the Kubernetes Service of its name in its `namespace` (`mongo_rate` is `mongo- "
        "rate`), or the one that `spec.services` of the Program object names. Here that Service is absent, it is a "
        "name outside of the cluster (`ExternalName`), or it has a pod on the host's network before a plan takes that "
        "into account. Until that changes, ADMs refuse the connections that may be those of the service and that "
        "would pass without their policies.",
    ),
    "ADM941": (
        "the selector of a Service is not what the program says",
        "Without a selector, EndpointSlices say where a service is, and nothing says which pods are its own: no proxy "
        "is identified as its ADM. With another selector than the `labels` of the program, the selector counts: "
        "NetworkPolicies select the pods of the service by it.",
    ),
    "ADM942": (
        "two services have one pod",
        "A pod has one ADM, which enforces the policies of one service; those of the other would be enforced nowhere. "
        "So neither is served until the pods are apart. Two Services over one Deployment are one service with the "
        "ports of both.",
        "service api { http 8080 }\nservice admin { http 9090 }",
        "service api { http web 8080  http admin 9090 }",
    ),
    "ADM943": (
        "the ports of a service are others in the cluster",
        "An ADM takes the connections to the ports that the program names: its `number` at the address of the "
        "Service, its target in the pods. A Service that leads to another target, also in one of its pods where the "
        "target is a name, would lead round the policies.",
        "",
        "service rate { http 80 -> 8080 }",
    ),
    "ADM944": (
        "a namespace takes no part",
        "An installation of admc reads and writes in the namespaces that carry the label `admc.dev/controller` with "
        "its name. A program that names another one is not served; if a namespace loses its label, the last good plan "
        "stays.",
        "",
        "kubectl label namespace shop admc.dev/controller=main",
    ),
    "ADM945": (
        "the facts of the cluster cannot be used",
        "A plan may rest on facts that a cluster shows and the program does not say: which services share the host's "
        "network, can host no ADM, or cannot be trusted. The document with them is an input of the plan "
        "(`cluster-facts.json`). The message says what is wrong with it, or that the plan was made without it.",
        "",
        "admc compile policies.adm --facts cluster-facts.json",
    ),
}

CODES: Mapping[str, tuple[str, ...]] = {**FACTS, **API, **PODS}
