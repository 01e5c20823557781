"""A mesh as one revision of Istio reads it: its configuration, its resources by age, and its hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from admc.istio.in_force.registry import Exports, Host, age, hosts_of
from admc.istio.in_force.selection import MATCH_LABELS, Selecting, selector
from admc.istio.mesh.model import Mesh, Proxy, Revision, Workload
from admc.istio.mesh.presence import DEFAULT_REVISION, REVISION
from admc.istio.mesh.references import NETWORKING
from admc.istio.schemas.mesh_config import DEFAULTS
from admc.manifests.documents import Object, Where, at

SECURITY: Final = "security.istio.io"
TELEMETRY: Final = "telemetry.istio.io"
WorkloadKey = tuple[str, str, str]
"""Namespace, kind and name of a workload."""


class Configuration(NamedTuple):
    """The settings of a revision that decide what is in force."""

    root: str
    trust_domain: str
    has_auto_mtls: bool
    is_closed: bool
    """REGISTRY_ONLY: hosts that the mesh does not know are refused."""
    has_locality: bool
    retries: int
    normalization: str
    has_tracing: bool
    logs: bool
    traffic_policy: Mapping[str, Any]
    """That of all clusters, where no DestinationRule has one."""
    proxy_metadata: Mapping[str, Any]
    exports: Exports


@dataclass(frozen=True)
class View:
    mesh: Mesh
    revision: str
    configuration: Configuration
    workloads: tuple[Workload, ...]
    """Those of the revision with a sidecar."""
    source: Revision | None = None

    def of_kind(self, group: str, kind: str) -> tuple[Object, ...]:
        """The resources of a kind that this revision reads, the older ones first."""
        return self._by_kind.get((group, kind), ())

    @cached_property
    def _by_kind(self) -> Mapping[tuple[str, str], tuple[Object, ...]]:
        return {
            key: tuple(sorted((it for it in listed if self.reads(it)), key=age))
            for key, listed in self.mesh.resources.items()
        }

    def near(self, group: str, kind: str, workload: Workload, where: Where = MATCH_LABELS) -> list[Object]:
        """The resources of a kind that may select a workload: of its namespace and the root, the older ones first."""
        return self._near(group, kind, where).near(workload.labels, workload.namespace, self.configuration.root)

    def for_all(self, group: str, kind: str, namespace: str) -> list[Object]:
        """The resources of a kind that select each workload of a namespace, the older ones first."""
        near = self._near(group, kind, MATCH_LABELS).near({}, namespace)
        return [it for it in near if not selector(it, MATCH_LABELS)]

    def _near(self, group: str, kind: str, where: Where) -> Selecting[Object]:
        if (group, kind) not in self._selecting:
            listed = self.of_kind(group, kind)
            self._selecting[group, kind] = Selecting((it.namespace, selector(it, where), it) for it in listed)
        return self._selecting[group, kind]

    @cached_property
    def _selecting(self) -> dict[tuple[str, str], Selecting[Object]]:
        return {}

    def reads(self, manifest: Object) -> bool:
        """Whether this revision reads a resource: one that names a revision is for that one alone."""
        name = at(manifest.metadata, ("labels", REVISION))
        return name is None or self.mesh.tags.get(str(name), str(name)) == self.revision

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        return hosts_of(self.mesh, self.of_kind(NETWORKING, "ServiceEntry"), self.configuration.exports)

    @cached_property
    def by_name(self) -> Mapping[str, tuple[Host, ...]]:
        made: dict[str, list[Host]] = defaultdict(list)
        for host in self.hosts:
            made[host.name].append(host)
        return {name: tuple(listed) for name, listed in made.items()}

    @cached_property
    def hosts_of_workload(self) -> Mapping[WorkloadKey, tuple[Host, ...]]:
        """The hosts for which a workload answers, the older ones first."""
        made: dict[WorkloadKey, list[Host]] = defaultdict(list)
        for host in self.hosts:
            for workload in host.workloads:
                made[key_of(workload)].append(host)
        return {key: tuple(listed) for key, listed in made.items()}


def key_of(workload: Workload) -> WorkloadKey:
    return workload.namespace, workload.kind, workload.name


def views_of(mesh: Mesh) -> tuple[View, ...]:
    """One view for each revision that has sidecars."""
    by_revision: dict[str, list[Workload]] = defaultdict(list)
    for workload in mesh.workloads:
        if workload.number(Proxy.SIDECAR):
            by_revision[_revision_of(mesh, workload)].append(workload)
    made = []
    for name in sorted(by_revision):
        revision = mesh.revisions.get(name)
        made.append(View(mesh, name, configuration(revision), tuple(by_revision[name]), revision))
    return tuple(made)


def _revision_of(mesh: Mesh, workload: Workload) -> str:
    presences = (workload.presence, *workload.pods)
    asked = next((it.revision for it in presences if it.proxy is Proxy.SIDECAR and it.revision), DEFAULT_REVISION)
    name = mesh.tags.get(asked, asked)
    # A single installation injects all pods, by whatever name the label has it.
    return next(iter(mesh.revisions)) if name not in mesh.revisions and len(mesh.revisions) == 1 else name


def configuration(revision: Revision | None) -> Configuration:
    values: dict[str, Any] = dict(DEFAULTS)
    if revision is not None:
        values.update({setting.name: setting.value for setting in revision.settings})
    return Configuration(
        str(values["rootNamespace"]),
        str(values["trustDomain"]),
        bool(values["enableAutoMtls"]),
        values["outboundTrafficPolicy.mode"] == "REGISTRY_ONLY",
        bool(values["localityLbSetting.enabled"]),
        int(values["defaultHttpRetryPolicy.attempts"]),
        str(values["pathNormalization.normalization"]),
        bool(values["enableTracing"]),
        bool(values["accessLogFile"]),
        values["defaultTrafficPolicy"],
        values["defaultConfig.proxyMetadata"],
        Exports(
            tuple(values["defaultServiceExportTo"]),
            tuple(values["defaultVirtualServiceExportTo"]),
            tuple(values["defaultDestinationRuleExportTo"]),
        ),
    )
