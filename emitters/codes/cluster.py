"""The texts of `admc explain CODE` for findings about Kubernetes objects and interception rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emitters.codes.code import Code

CODES: Final[Mapping[str, Code]] = {
    "ADM781": Code(
        "two services whose NetworkPolicies would have one name",
        "A closed destination gets a NetworkPolicy that is named after it. Kubernetes names have no capitals and "
        "no `_`, so `user_db` and `user-db` become the same name. Rename one of them, or give them different "
        "namespaces.",
    ),
    "ADM782": Code(
        "a name or label that Kubernetes does not take",
        "NetworkPolicies carry the names, namespaces and labels of services. Kubernetes allows letters, digits and `-` "
        "in names and namespaces, also `_` and `.` in labels, and bounds their length.",
        bad='service cart { http 8080  labels { tier = "front end" } }',
        good='service cart { http 8080  labels { tier = "front-end" } }',
    ),
    "ADM783": Code(
        "a caller that a NetworkPolicy cannot name",
        "A closed destination admits its declared senders only, by the labels of their pods or by their addresses. A "
        "service on the host's network shares its node's address, and an external without a `cidr` has none that is "
        "known. In a cluster, a Service without a selector has pods that no label tells. Pin the policies of that "
        "destination at ingress, or say where the caller is.",
        bad="external office",
        good='external office { cidr "10.9.0.0/16" }',
    ),
    "ADM784": Code(
        "labels that select another service's pods",
        "A NetworkPolicy selects pods by their labels. The labels of one service are all on another one too, so the "
        "policy would close, or admit, the wrong pods. Give each service a label of its own: a label without a value "
        "has the name of its service, also where several services share a body. The pods need that label as well.",
        bad='service a, b { http 80  labels { tier = "x" } }',
        good='service a, b { http 80  labels { app  tier = "x" } }',
    ),
    "ADM785": Code(
        "a service on the host's network that passes a NetworkPolicy",
        "This is a warning. A policy for every caller that is at the senders, or in the network, needs its destination "
        "closed by a NetworkPolicy. The traffic of a node passes the NetworkPolicies of the pods on it, so a service "
        "with `host_network` that runs on such a node meets none of these policies. Keep them at the destination, or "
        "accept it by `accept host_network`. `admc check` warns of the destinations that every placement closes, "
        "`admc compile` of all that are closed.",
        bad="service agent { http 9100  host_network }",
        good="service agent { http 9100  host_network }\naccept host_network",
    ),
    "ADM791": Code(
        "a health probe that cannot by-pass its ADM",
        "A node's health probes go round the ADM, so that a policy never makes a pod look dead. The interception "
        "rules recognise them by the node's address and the port that they probe. Here that is no single address or no "
        "port of the service, or other traffic could pass as a probe and so go round the policies.",
    ),
}
