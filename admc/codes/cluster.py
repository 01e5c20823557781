"""Codes about clusters: title, explanation, and examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM946": (
        "no API server can be reached with this configuration",
        "A command about a cluster needs the Kubernetes client (`pip install 'admc[cluster]'`), and an address, an "
        "authority and credentials: of a kubeconfig file, which `--kubeconfig` or KUBECONFIG names, of the service "
        "account of the pod in which admc runs, or of `~/.kube/config`. The cause says what is missing or wrong.",
    ),
}
