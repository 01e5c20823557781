"""The names that filters, clusters and statistics carry, so that a reader can map them back to policies."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.held_headers import Version
    from emitters.hops import Hop


def filter_name(hop: str, policy: Policy) -> str:
    """The name of a policy's filter in a hop: `ingress/8082/search_quota:rate_limit`.

    It has the kind, so that a policy which becomes one of another kind gets another filter. With one name for both,
    listeners that were made for the old kind would get the new configuration, or refuse it, while the old one is gone.
    """
    kind = policy.kind
    if kind.template is None:
        return f"{hop}/{policy.name}:{kind.name}"
    text = hashlib.sha256(kind.template.text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{hop}/{policy.name}:{kind.name}:{text}"


def second_filter_name(name: str) -> str:
    """The name of a policy's second filter, by that of its first."""
    return f"{name}:behind"


def stat_name(policy: Policy, hop: Hop) -> str:
    """The name under which a policy counts: `search_quota/search`."""
    return f"{policy.name}/{hop.destination}"


def called_cluster(service: str) -> str:
    """The cluster by which filters call a service."""
    return f"call/{service}"


def target_cluster(hop: Hop, service: str, version: Version | None = None) -> str:
    """The cluster by which a split of a hop reaches another service, or a mirror in a version of HTTP."""
    return f"{hop.name}/to:{service}" if version is None else f"{hop.name}/to:{service}/{version}"
