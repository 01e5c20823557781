"""Names that injection writes into pods, or reads there, and the images of its containers."""

from __future__ import annotations

from typing import Final

from admc import __version__

KEEP_NET_RAW: Final = "admc.dev/keep-net-raw"
"""Annotation of a pod template. If it is `"true"`, the template's own containers keep NET_RAW, and the service is
untrusted."""
INJECT: Final = "admc.dev/inject"
"""Annotation of a pod template. If it is `"false"`, the pod gets nothing of admc, and counts as one that lacks it."""
POD_LABELS: Final = "admc.dev/pod-labels"
"""Annotation of a Service: the labels of its selector that all of its pods have, also those that get no requests at
present (`selectors`)."""
ADM_CPU: Final = "admc.dev/adm-cpu"
"""Annotation of a pod template: the CPU that its ADM requests; and below its memory, and the limits of both."""
ADM_MEMORY: Final = "admc.dev/adm-memory"
ADM_CPU_LIMIT: Final = "admc.dev/adm-cpu-limit"
ADM_MEMORY_LIMIT: Final = "admc.dev/adm-memory-limit"

RULES_CONTAINER: Final = "admc-rules"
"""The init container that loads the packet filter rules."""
ADM_CONTAINER: Final = "admc-proxy"
"""The native sidecar: Envoy."""
WAIT_CONTAINER: Final = "admc-wait"
"""The init container that ends when the ADMs that need the pod's address have it."""

CPU: Final = "[1-9][0-9]{0,14}m?"
"""The notation of CPU: millicores, or cores."""
MEMORY: Final = "[1-9][0-9]{0,14}(Ki|Mi|Gi)?"
"""The notation of memory."""

IMAGE: Final = f"admc:{__version__}"
ENVOY_IMAGE: Final = "envoyproxy/envoy:v1.40-latest"
