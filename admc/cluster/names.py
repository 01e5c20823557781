"""Names in the cluster that belong to admc: groups, labels, field managers, containers."""

from __future__ import annotations

from typing import Final

GROUP: Final = "admc.dev"
VERSION: Final = "v1alpha1"
PROGRAMS: Final = f"/apis/{GROUP}/{VERSION}/programs"
"""The path of the objects of kind `Program`, which are cluster-scoped."""

CONTROLLER: Final = f"{GROUP}/controller"
"""Label of namespaces that take part in an installation, and of objects that it writes; the value is its name."""

FIELD_MANAGER: Final = "admc"
"""Of every server-side apply."""

KEEP_NET_RAW: Final = f"{GROUP}/keep-net-raw"
"""Annotation of a pod template, `"true"`: its own containers keep NET_RAW, so its service is untrusted."""

RULES_CONTAINER: Final = "admc-rules"
"""The init container that loads the packet filter rules."""
ADM_CONTAINER: Final = "admc-proxy"
"""The native sidecar: Envoy."""
WAIT_CONTAINER: Final = "admc-wait"
"""The init container that ends when the ADMs that need the pod's address have it."""
