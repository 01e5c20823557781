"""Questions of an API server about pods, and what the pod becomes by the answer."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any, Final

from admc.kubernetes.cluster.webhook.review import Known
from admc.kubernetes.inject.model import Installation
from admc.kubernetes.inject.spec import Captures, InjectionSpec, ServiceInjection, injection_spec
from tests.cluster.objects import container

HERE: Final = Installation("main", "", "registry:5000/admc:1", "envoy:1")
SERVER: Final = "admc-main.admc-system.svc:18000"
SERVICES: Final = {
    "rate": ServiceInjection({"app": "rate"}, waits=True, captures=Captures((9000,), (27017,))),
    "cart": ServiceInjection({"app": "cart"}, waits=True),
    "calm": ServiceInjection({"app": "calm"}, waits=False, captures=Captures((9000,), ())),
    "front": ServiceInjection({"tier": "front"}, waits=True),
}
SPEC: Final[InjectionSpec] = injection_spec("shop", SERVER, SERVICES)
KNOWN: Final = Known(HERE, {"shop": SPEC}, "admc-system")


def pod(service: str = "rate", **spec: Any) -> dict[str, Any]:
    """As a ReplicaSet makes it."""
    metadata = {"generateName": f"{service}-7d9f4-", "namespace": "shop", "labels": {"app": service}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"containers": [container()], **spec},
        "status": {},
    }


def review_of(given: object, **request: Any) -> dict[str, Any]:
    metadata = given.get("metadata") if isinstance(given, dict) else None
    namespace = metadata.get("namespace", "shop") if isinstance(metadata, dict) else "shop"
    kind, resource = (
        {"group": "", "version": "v1", name: what} for name, what in (("kind", "Pod"), ("resource", "pods"))
    )
    asked = {
        "uid": "0a1b",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": given,
        "oldObject": None,
        "dryRun": False,
        **request,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked}


def content(given: object, **request: Any) -> bytes:
    return json.dumps(review_of(given, **request)).encode()


def response_in(body: bytes) -> dict[str, Any]:
    document = json.loads(body)
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = document["response"]
    assert response["allowed"] is True
    return response


def patched(given: dict[str, Any], body: bytes) -> dict[str, Any]:
    """The pod as an API server makes it of an answer."""
    response = response_in(body)
    made = copy.deepcopy(given)
    if "patch" not in response:
        assert "patchType" not in response
        return made
    assert response["patchType"] == "JSONPatch"
    for operation in json.loads(base64.b64decode(response["patch"], validate=True)):
        *path, last = operation["path"].removeprefix("/").split("/")
        part = made
        for key in path:
            part = part[key]
        if operation["op"] == "remove":
            del part[last]
        else:
            assert operation["op"] == "add"
            part[last] = operation["value"]
    return made
