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

    The name contains the kind, so that a policy gets another filter when its kind changes. With one name for both
    kinds, listeners for the old kind would get the configuration of the new kind, or would refuse it and have no other
    one.
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
    """The cluster by which a split of a hop, or a mirror in a version of HTTP, reaches another service."""
    return f"{hop.name}/to:{service}" if version is None else f"{hop.name}/to:{service}/{version}"
