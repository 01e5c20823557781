"""Small immutable records of the cluster's objects, which admc keeps in place of the whole objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emitters.health_probes import Probe
    from emitters.interception.pod import PodCaptures


class Key(NamedTuple):
    """The name of an object; cluster-scoped objects have the namespace ""."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Pod:
    """The fields of a pod that addresses, facts and identities need."""

    key: Key
    uid: str
    labels: Mapping[str, str]
    addresses: tuple[str, ...]
    """`status.podIPs`; empty until the pod has one."""
    is_over: bool
    """Its phase is `Succeeded` or `Failed`, so its address may be another pod's by now."""
    is_ready: bool
    is_terminating: bool
    host_network: bool
    account: str
    """Its service account."""
    ports: Mapping[str, int]
    """Container ports of TCP, by name."""
    hosts_no_adm: str
    """Why it cannot host an ADM (a mirror pod, Windows); empty if it can."""
    untrusted: str
    """Why its requests may go round its ADM (docs/cluster/trust.md); empty if they cannot."""
    service: str
    """`APP/SERVICE` of the ADM in its spec; empty without one."""
    captures: PodCaptures
    """What its rules container captures, from the spec."""
    is_redirected: bool
    """Whether its rules container has ended with exit code 0."""
    waits: bool
    """Whether it has the init container that waits until ADMs know its address."""
    created: str = ""
    """`metadata.creationTimestamp`."""
    unrecognised: str = ""
    """Why containers in it with admc's names are not as injection writes them (`recognised`); empty if they are, or if
    there are none."""
    probes: tuple[Probe, ...] = ()
    """The probes of its containers that ask its ADM."""
    probe_fault: str = ""
    """Why its ADM cannot answer one of them, which is left out here; empty if there is none."""

    @property
    def hosts(self) -> str:
        """The service of the ADM in its spec; empty without one."""
        return self.service.partition("/")[2]


class ServicePort(NamedTuple):
    number: int
    target: int | str
    """A number, or the name of a container port."""
    name: str = ""
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class Service:
    """A Kubernetes Service."""

    key: Key
    uid: str
    created: str
    """`metadata.creationTimestamp`."""
    addresses: tuple[str, ...]
    """Cluster addresses; empty for a headless one."""
    external_name: str
    selector: Mapping[str, str]
    """The labels of its pods: those of `spec.selector`, or the part that its annotation names. Empty if EndpointSlices
    give its addresses."""
    ports: tuple[ServicePort, ...]
    receivers: Mapping[str, str] = field(default_factory=dict)
    """The labels of those of its pods that get requests, which is `spec.selector`; empty if all of them do."""
    unusable: str = ""
    """Why admc does not use its selector, which is then empty here: the Service counts as absent. Empty if it does."""
    fault: str = ""
    """Why admc does not use its annotation; empty if it does, or there is none."""


@dataclass(frozen=True, slots=True)
class Slice:
    """An EndpointSlice of a Service, with or without a selector."""

    key: Key
    service: str
    addresses: tuple[str, ...]
    unready: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    labels: Mapping[str, str]
    is_terminating: bool = False
    """It is being deleted with all its objects, and admits no new ones."""
    reserved: str = ""
    """Why it takes no part, whatever its label says; empty if it may."""
