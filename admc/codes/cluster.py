"""Codes about a cluster: title, explanation, examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

INJECTION: Mapping[str, tuple[str, ...]] = {
    "ADM920": (
        "a pod template is not as Kubernetes has it",
        "`admc inject` found a value of another type where a pod template has its containers, volumes, ports or "
        "security contexts. The API server would refuse it, too. `kubectl apply --dry-run=server -f FILE` says more.",
    ),
    "ADM921": (
        "a container or volume of the user has a name of admc's",
        "admc gives its containers the names `admc-rules`, `admc-proxy` and `admc-wait`, and its volumes `admc-config` "
        "and `admc-token`. It replaces those that it wrote, and no others. Give yours another name; if an earlier "
        "`admc inject` wrote it and it was edited since, remove it.",
    ),
    "ADM922": (
        "the pod can host no ADM",
        "A pod on its node's network shares its packet filter with the whole node, and a pod on Windows has none that "
        "admc knows. Declare the service `host_network` or `no adm` in the program and compile again: policies then "
        "go to the other side of its calls.",
    ),
    "ADM923": (
        "a probe asks a port whose connections are redirected",
        "The kubelet sends a probe or a hook to the pod's address from the node. If the port has policies at ingress, "
        "the probe would meet them, as a caller that they do not know. Let it ask another port, or make it an `exec` "
        "probe, which runs in the container: connections on loopback pass no ADM.",
    ),
    "ADM924": (
        "a container runs as the ADM's user",
        "The packet filter of a pod tells by the user id what the ADM opens, and lets it pass. Another container with "
        "that id would go round every policy of its service. Give it another `runAsUser`.",
    ),
    "ADM925": (
        "a container listens at a port of the ADM",
        "All containers of a pod share its ports. The ADM needs four of them: 15000 on loopback shows its state, 15001 "
        "and 15006 take redirected connections, and 15021 answers its startup probe.",
    ),
    "ADM926": (
        "a pod template is of two services",
        "The Services in the given manifests, or else the labels in the program, select the pods of this template for "
        "two services of the program. Each would have an ADM of its own in every pod, and the rules of one would "
        "replace those of the other. Give each service pods of its own, or declare one service with the ports of both.",
        "service web { http 80 -> 8080 }\nservice admin { http 90 -> 9090 }",
        "service web { http main 80 -> 8080  http admin 90 -> 9090 }",
    ),
    "ADM927": (
        "manifests that cannot be read",
        "`admc inject` reads YAML and JSON of at most 32 MB and 2,000,000 values, with aliases written out, and 60 "
        "levels. A key that is there twice is an error: readers differ in which of the two values they take, so what "
        "is checked could differ from what is applied.",
    ),
    "ADM928": (
        "an injected pod has something that its ADM does not hold against",
        "A warning: the manifests were written. Another mesh redirects the connections of the pod as well, a container "
        "loses a capability that it asked for, a pod may not find the server, or a document lost its comments because "
        "it is in a style that admc does not edit in place. The message says which, and what to do.",
    ),
    "ADM929": (
        "it is not known which server the pods belong to",
        "Pods need the name of the installation (`--cluster NAME`) for their token and their ConfigMap, and the "
        "address of its xDS server (`--xds HOST:PORT`). A server that follows a cluster says both, so `--server URL` "
        "needs neither of them.",
        "admc inject --plan policies.plan.json -f app.yaml",
        "admc inject --plan policies.plan.json --cluster shop -f app.yaml",
    ),
}

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
        "what the cluster says of its services cannot be used",
        "The document `cluster-facts.json` lists what the cluster shows of services: pods on the network of their "
        "node, that host no ADM, or whose traffic cannot be relied on to pass one. It is an input of the plan like "
        "the program's files, so none of these may have its name.",
    ),
}

SERVING: Mapping[str, tuple[str, ...]] = {
    "ADM950": (
        "there is no program",
        "The server runs without one. Before the first program proxies get no configuration, and connect again from "
        "time to time. A program that goes away changes nothing: proxies keep the last plan, and the server gives it "
        "to proxies that start, until there is a program again.",
    ),
    "ADM951": (
        "another server may lead the proxies",
        "One server leads proxies from plan to plan. This one cannot be sure any more that it is the one, so it stores "
        "and publishes nothing new; proxies keep what they have. It goes on by itself once it is sure again.",
    ),
}

CODES: Mapping[str, tuple[str, ...]] = {**INJECTION, **FACTS, **API, **SERVING, **PODS}
