"""Codes about clusters: title, explanation, and examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM930": (
        "the spec of a `Program` is not as it should be",
        "A `Program` names its installation in `spec.controller`, and has its files in `spec.files`, or names "
        "ConfigMaps in `spec.configMaps`: one of the two. The message names the field. The API server refuses most of "
        "this when the object is applied; what it cannot check, the server of the installation finds.",
    ),
    "ADM931": (
        "a ConfigMap does not have the content that the `Program` names",
        "`spec.configMaps` names each file of a program with the SHA-256 of its content, so that a program changes "
        "whole or not at all. For a file that is packed with gzip, it is the digest of the unpacked content. While "
        "one of them differs, the last good plan stays in force. Apply the right content, or the right digest: "
        "`sha256sum FILE`.",
    ),
    "ADM932": (
        "a ConfigMap of a `Program` is not there",
        "The ConfigMaps of `spec.configMaps` are in the namespace of the installation. The server looks for one that "
        "is missing every few seconds, and goes on once it is there. Until then the last good plan stays in force.",
    ),
    "ADM933": (
        "a program is too large, or its file cannot be unpacked",
        "Files in `binaryData` of a ConfigMap are packed with gzip. They are unpacked up to a bound, so that a small "
        "file cannot fill the memory of the server. A program has at most 64 MB in all.",
    ),
    "ADM934": (
        "another `Program` is served",
        "An installation serves one `Program`: of those that name it in `spec.controller`, the oldest. Remove one of "
        "them, or let it name another installation.",
    ),
    "ADM935": (
        "the API server does not show what a command reads",
        "Commands about a cluster read its objects with the permissions of the account in the kubeconfig. The cause is "
        "what the API server says. Reading a plan needs the verb `get` on the `Program` and on ConfigMaps in the "
        "namespace of the server.",
    ),
    "ADM936": (
        "two installations claim one service",
        "A service has policies of one installation: of the `Program` that is older. Its namespace takes part in the "
        "installation that the label `admc.dev/controller` of the namespace names. Leave the service out of one of "
        "the programs, or wait until the older one has given it up.",
    ),
    "ADM937": (
        "another NetworkPolicy admits more to a closed destination",
        "A policy for every caller is enforced at the senders, so the destination is closed to all other callers by a "
        "NetworkPolicy. NetworkPolicies add up: another one that selects the same pods may admit more. A policy "
        "counts as such unless it is certain that it admits no more: its pods are others (as by `app NotIn [db]`), or "
        "its rules are about other ports, or about senders that the program declares. Narrow it, or pin the policies "
        "of the destination at ingress.",
    ),
    "ADM938": (
        "the plan in the cluster cannot be used",
        "`admc plan NAME` reads the plan from ConfigMaps and compares their digests. One was changed or removed by "
        "hand, or the plan is being replaced at this moment. The server writes it again within seconds: try again, "
        "and look at the condition `Accepted` of the `Program` if it stays like this.",
    ),
    "ADM939": (
        "there is no plan of such a `Program` in the cluster",
        "`admc plan NAME` reads the `Program` of that name, and the ConfigMaps that its status names. A `Program` has "
        "no plan before a server of its installation has compiled it: its condition `Accepted` says why.",
    ),
    "ADM946": (
        "no API server can be reached with this configuration",
        "A command about a cluster needs the Kubernetes client (`pip install 'admc[cluster]'`), and an address, an "
        "authority and credentials: of a kubeconfig file, which `--kubeconfig` or KUBECONFIG names, of the service "
        "account of the pod in which admc runs, or of `~/.kube/config`. The cause says what is missing or wrong.",
    ),
}
