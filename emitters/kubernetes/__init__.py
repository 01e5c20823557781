"""The Kubernetes objects of a placement: the NetworkPolicies that close destinations.

program + placement -> [NetworkPolicy]
"""

from emitters.kubernetes.network_policies import (
    Admitted,
    Closed,
    ClosedTargets,
    check,
    closed_by_selector,
    kubernetes_name,
    network_policies,
    pod_labels,
    to_yaml,
)

__all__ = [
    "Admitted",
    "Closed",
    "ClosedTargets",
    "check",
    "closed_by_selector",
    "kubernetes_name",
    "network_policies",
    "pod_labels",
    "to_yaml",
]
