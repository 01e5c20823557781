"""Names that injection writes into pods, or reads there."""

from __future__ import annotations

from typing import Final

KEEP_NET_RAW: Final = "admc.dev/keep-net-raw"
"""Annotation of a pod template, `"true"`: its own containers keep NET_RAW, so its service is untrusted."""

RULES_CONTAINER: Final = "admc-rules"
"""The init container that loads the packet filter rules."""
ADM_CONTAINER: Final = "admc-proxy"
"""The native sidecar: Envoy."""
WAIT_CONTAINER: Final = "admc-wait"
"""The init container that ends when the ADMs that need the pod's address have it."""
