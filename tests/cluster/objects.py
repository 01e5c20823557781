"""Objects of the API as plain JSON, and records, as the tests need them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.records import Key, Pod, Service, ServicePort
from emitters.interception.pod import PodCaptures

if TYPE_CHECKING:
    from collections.abc import Mapping

_UIDS = count(1)
TOKENS = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
"""Where the webhook of EKS mounts a token."""


def pod_json(
    name: str = "rate-1",
    *,
    namespace: str = "shop",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod as a watch shows it, with the noise that real ones have."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "4711",
            "creationTimestamp": "2026-11-23T08:00:00Z",
            "labels": {"app": "rate", "pod-template-hash": "7c5ddbdf54"} if labels is None else dict(labels),
            "annotations": dict(annotations or {}),
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}] * 3,
        },
        "spec": {
            "containers": [container()],
            "serviceAccountName": "rate",
            "nodeName": "node-1",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}] * 2,
            **(spec or {}),
        },
        "status": {
            "phase": "Running",
            "podIP": "10.1.0.7",
            "podIPs": [{"ip": "10.1.0.7"}, {"ip": "fd00:1::7"}],
            "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")],
            **(status or {}),
        },
    }


def container(name: str = "app", **fields: Any) -> dict[str, Any]:
    """A container that cannot go round its ADM."""
    context = {"runAsUser": 1000, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    return {"name": name, "image": "example", "securityContext": context, **fields}


def as_a_webhook_does(spec: dict[str, Any]) -> None:
    """The webhook of EKS changes all containers of a pod like this."""
    token = {"audience": "sts.amazonaws.com", "expirationSeconds": 86400, "path": "token"}
    spec["volumes"].insert(0, {"name": "aws-iam-token", "projected": {"sources": [{"serviceAccountToken": token}]}})
    values = {"AWS_REGION": "eu-west-1", "AWS_ROLE_ARN": "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE": f"{TOKENS}/token"}
    for part in (*spec["initContainers"], *spec["containers"]):
        part.setdefault("env", []).extend({"name": name, "value": value} for name, value in values.items())
        part.setdefault("volumeMounts", []).append({"name": "aws-iam-token", "mountPath": TOKENS, "readOnly": True})


def pod(
    name: str,
    service: str = "rate",
    *addresses: str,
    namespace: str = "shop",
    labels: Mapping[str, str] | None = None,
    adm: str = "",
    **fields: Any,
) -> Pod:
    """A record of a ready pod of a service. `adm`: `APP/SERVICE` of its ADM."""
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "is_over": False,
        "is_ready": True,
        "is_terminating": False,
        "host_network": False,
        "account": "default",
        "ports": {},
        "hosts_no_adm": "",
        "untrusted": "",
        "service": adm,
        "captures": PodCaptures(),
        "is_redirected": False,
        "waits": False,
        **fields,
    }
    return Pod(
        Key(namespace, name), labels={"app": service} if labels is None else labels, addresses=addresses, **values
    )


def service(
    name: str,
    *addresses: str,
    namespace: str = "shop",
    selector: Mapping[str, str] | None = None,
    ports: tuple[ServicePort, ...] = (ServicePort(9000, 9000),),
    external_name: str = "",
) -> Service:
    """A record of a Service that selects the label `app` with its own name."""
    chosen = {"app": name} if selector is None else selector
    return Service(Key(namespace, name), f"uid-{name}", "2026-11-23T08:00:00Z", addresses, external_name, chosen, ports)
