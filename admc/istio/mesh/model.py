"""The mesh. All types are immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.manifests.documents import Object, Where

if TYPE_CHECKING:
    from admc.istio.schemas.mesh_config import Setting


class Proxy(StrEnum):
    """The proxy that carries the traffic of a pod."""

    SIDECAR = "sidecar"
    GATEWAY = "gateway"
    """The pod itself is a proxy: a gateway or a waypoint."""
    AMBIENT = "ambient"
    """The proxy of its node, ztunnel."""
    NONE = "none"


class Declaration(StrEnum):
    """What says which proxy a pod has."""

    CONTAINER = "the container `istio-proxy`"
    LIVE = "pods that run without the container `istio-proxy`"
    POD_LABEL = "labels of pods"
    POD_ANNOTATION = "annotations of pods"
    NAMESPACE_LABEL = "namespace labels"
    ALL_NAMESPACES = "the setting `enableNamespacesByDefault`"
    HOST_NETWORK = "the host's network"
    SYSTEM_NAMESPACE = "namespaces of Kubernetes itself"
    POLICY_DISABLED = "the setting `autoInject: disabled`"
    OPTION = "`--injected`"
    NOTHING = "no declaration"


class Place(NamedTuple):
    """A field of an object."""

    object: Object
    where: Where


@dataclass(frozen=True)
class Presence:
    proxy: Proxy
    by: Declaration
    place: Place | None = None
    """The declaration itself; None if it is no field."""
    revision: str | None = None
    """The revision of Istio that injects it, where a label says so."""


class Counting(StrEnum):
    """What the number of a workload's pods comes from."""

    PODS = "pods"
    REPLICAS = "replicas"
    MINIMUM = "at least"
    """More may run: one a node, those of an autoscaler, those of a job."""


@dataclass(frozen=True)
class Workload:
    """Pods with one template."""

    namespace: str
    kind: str
    name: str
    labels: Mapping[str, str]
    """Those of its pods."""
    object: Object
    """What it is read from: itself, or its first pod."""
    presence: Presence
    """Of its first pod, or of its template where no pod was read."""
    pods: tuple[Presence, ...]
    """One for each running pod, if pods were read."""
    replicas: int
    """The number of its pods."""
    counting: Counting

    def number(self, proxy: Proxy) -> int:
        """How many of its pods have a proxy."""
        if self.counting is Counting.PODS:
            return sum(presence.proxy is proxy for presence in self.pods)
        return self.replicas if self.presence.proxy is proxy else 0


@dataclass(frozen=True)
class Revision:
    """An installation of Istio, with its configuration."""

    name: str
    source: Place | None
    """Where its mesh configuration is; None if only its name is known."""
    settings: tuple[Setting, ...]
    injects_all: bool = False
    """`enableNamespacesByDefault`: pods are injected where no label says otherwise."""
    injects_unasked: bool = True
    """False with `autoInject: disabled`: a pod has to ask for its sidecar."""


@dataclass(frozen=True)
class Mesh:
    workloads: tuple[Workload, ...]
    namespaces: Mapping[str, Object]
    services: tuple[Object, ...]
    resources: Mapping[tuple[str, str], tuple[Object, ...]]
    """Resources of Istio and the Gateway API, by group and kind."""
    revisions: Mapping[str, Revision]
    tags: Mapping[str, str]
    """Tag -> revision."""
    config_maps: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    """By namespace and name. They have their texts only where calls are guessed."""

    def of_kind(self, group: str, kind: str) -> tuple[Object, ...]:
        return self.resources.get((group, kind), ())


def spec_of(manifest: Object) -> dict[str, Any]:
    spec = manifest.data.get("spec")
    return spec if isinstance(spec, dict) else {}
