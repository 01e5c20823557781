"""The probes that the ADMs of a service answer, read from its pods.

    pods of a service, each with its probes --> the document of the service's probes, and what is left out

All pods of a service have one configuration, so each ADM checks its own process for the probes of all of them. The
pods are those that the Service selects, since their ADMs get this configuration, and those with an ADM of the service:
while the Service is missing, their probes go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from emitters.health_probes import MAX_PROBES, ServiceProbes, text_of
from emitters.ports import OWN_PORTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.kubernetes.cluster.core.selection import Selection
    from admc.kubernetes.cluster.records import Pod
    from emitters.health_probes import Probe

LOOPBACK: Final = "127.0.0.1"
LOOPBACK_IPV6: Final = "::1"


class LearnedProbes(NamedTuple):
    document: str
    """Empty without probes (`emitters.health_probes.text_of`)."""
    fault: str
    """Why the ADM of a pod does not answer one of its probes; empty if all are answered."""


NO_PROBES: Final = LearnedProbes("", "")


def learned(selection: Selection, name: str) -> LearnedProbes:
    """Return the probes of a service's pods. Of too many, those of the oldest pods are answered: a new template with
    too many does not make the pods before it fail."""
    hosting = selection.view.hosting_in(selection.keys[name].namespace, name)
    pods = {pod.key: pod for pod in (*hosting, *selection.pods(name).values()) if pod.probes or pod.probe_fault}
    if not pods:
        return NO_PROBES
    oldest_first = sorted(pods.values(), key=lambda pod: (pod.created, pod.key))
    targets = frozenset(port.target for port in selection.program.services[name].ports)
    probes: dict[str, Probe] = {}
    faults: list[str] = []
    for pod in oldest_first:
        if pod.probe_fault:
            faults.append(_of(pod, pod.probe_fault))
        for probe in pod.probes:
            # A plan that redirects fewer ports than the one before leaves older pods with their probes.
            if probe.port not in targets | pod.captures.ingress or probe.port in OWN_PORTS:
                faults.append(_of(pod, f"it asks port {probe.port}, which is no target port of the service"))
            elif probe.path not in probes and len(probes) == MAX_PROBES:
                faults.append(_of(pod, f"the pods of the service have more than {MAX_PROBES} different ones"))
            else:
                probes.setdefault(probe.path, probe)
    ordered = tuple(probes[path] for path in sorted(probes))
    document = text_of(ServiceProbes(_loopback(oldest_first), ordered)) if ordered else ""
    return LearnedProbes(document, faults[0] if faults else "")


def _of(pod: Pod, why: str) -> str:
    return f"a probe of the pod `{pod.key.name}`: {why}"


def _loopback(pods: Iterable[Pod]) -> str:
    """Return the loopback address of the family of the pods' first addresses, which their kubelets would ask."""
    first = next((pod.addresses[0] for pod in pods if pod.addresses), "")
    return LOOPBACK_IPV6 if ":" in first else LOOPBACK
