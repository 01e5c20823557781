"""Names in the cluster that belong to admc: groups, labels, field managers."""

from __future__ import annotations

from typing import Final

GROUP: Final = "admc.dev"
VERSION: Final = "v1alpha1"
PROGRAMS: Final = f"/apis/{GROUP}/{VERSION}/programs"
"""The path of the objects of kind `Program`, which are cluster-scoped."""

CONTROLLER: Final = f"{GROUP}/controller"
"""Label of namespaces that take part in an installation, and of objects that it writes; the value is its name."""

SYSTEM_NAMESPACES: Final = ("kube-node-lease", "kube-public", "kube-system")
"""The namespaces of Kubernetes itself. The chart leaves them out of the webhook and of the guard, and also the one of
the server."""


def reserved(namespace: str, own: str) -> str:
    """Return why a namespace takes part in no installation, whatever its label says; empty if it may take part. `own`
    is the namespace of the server."""
    if namespace == own:
        return "it is the namespace of the server, which has to start without the webhook"
    if namespace in SYSTEM_NAMESPACES:
        return "it is a namespace of Kubernetes itself, whose pods have to start without the webhook"
    return ""


FIELD_MANAGER: Final = "admc"
"""The field manager of every server-side apply."""
