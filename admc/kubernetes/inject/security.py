"""What the containers of a pod may do to its redirection, by their specification.

    pod specification (plain JSON) -> why it hosts no ADM; why what it sends cannot be relied on to pass its ADM

Packet filter rules redirect the connections of every user but the ADM's. A container goes round its ADM if it can
change the rules (NET_ADMIN), send packets past them (NET_RAW), or become the ADM's user. Injection takes NET_RAW from
the containers of a pod, so a specification is judged as injection leaves it: the placement rests on the pods that it
leads to.

The reasons name containers, which are part of a pod template, and never pods: all replicas have the same reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.model import AUDIENCE_PREFIX
from emitters.ports import ADM_USER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    Json = Mapping[str, Any]

MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of the pod that stands in the API for one that a node runs from a file of its own."""
POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"
FORBIDDING: Final = ("baseline", "restricted")
"""The levels of Pod Security that allow no container to load packet filter rules."""
_OPERATING_SYSTEM: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
_DEFAULT: Final = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
"""What containerd gives a container that asks for nothing; other runtimes give less."""
_PAST_RULES: Final = (
    *("NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE"),
    *("BPF", "DAC_READ_SEARCH", "PERFMON", "SYS_BOOT", "SYS_RAWIO"),
)
"""NET_ADMIN changes the rules, NET_RAW sends past them; the others lead to the kernel, or to secrets of other processes
and of the node, and by that to any capability."""
_GIVES_AWAY: Final = ("CHOWN", "FOWNER")
"""With both, root gives a program to the ADM's user and sets its set-user-id bit."""
_NAMED: Final = 63
"""Characters of a container's name in Kubernetes."""


def hosts_no_adm(metadata: Json, spec: Json) -> str:
    """Why a pod cannot host an ADM; empty if it can."""
    if MIRROR in (metadata.get("annotations") or {}):
        return "mirror pod"
    selector = spec.get("nodeSelector") or {}
    systems = {(spec.get("os") or {}).get("name"), *(selector.get(label) for label in _OPERATING_SYSTEM)}
    return "Windows" if "windows" in systems else ""


def forbids_adms(labels: Mapping[str, str]) -> str:
    """Why no pod of a namespace can host an ADM, by the namespace's labels; empty if they can."""
    level = labels.get(POD_SECURITY, "")
    return f"Pod Security `{level}`" if level in FORBIDDING else ""


def untrusted(spec: Json, *, injected: Collection[str] = (), keeps_net_raw: bool) -> str:
    """Why the containers of a pod may go round its ADM; empty if they cannot.

    `injected`: the containers that are exactly what injection writes; they are left out. `keeps_net_raw`: injection has
    taken nothing from the containers, or takes nothing.
    """
    if spec.get("hostPID") is True:
        return "the pod has the process namespace of the host"
    pod = _mapping(spec.get("securityContext"))
    shared = spec.get("shareProcessNamespace") is True
    tokens = _token_volumes(spec)
    for container, ephemeral in containers(spec):
        name = container.get("name")
        if name in injected and not ephemeral:
            continue
        # Injection changes templates. An ephemeral container comes later, with what it asks for.
        why = _why(container, pod, keeps_net_raw or ephemeral, shared or "targetContainerName" in container)
        if not why and tokens.intersection(
            str(mount.get("name")) for mount in _mappings(container.get("volumeMounts"))
        ):
            why = "has the token by which the server knows the ADM"
        if why:
            # The names of ephemeral containers are often random.
            return f"{'an ephemeral container' if ephemeral else f'container `{str(name)[:_NAMED]}`'} {why}"
    return ""


def containers(spec: Json) -> Iterator[tuple[Json, bool]]:
    """All containers of a pod, each with whether it is an ephemeral one."""
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in _mappings(spec.get(field)):
            yield container, field == "ephemeralContainers"


def _token_volumes(spec: Json) -> frozenset[str]:
    """The volumes with a token for a server of admc. A container that has one can answer the server in the place of the
    ADM, and say that a policy is in force which is not."""
    volumes = set()
    for volume in _mappings(spec.get("volumes")):
        for source in _mappings(_mapping(volume.get("projected")).get("sources")):
            audience = _mapping(source.get("serviceAccountToken")).get("audience")
            if isinstance(audience, str) and audience.startswith(AUDIENCE_PREFIX):
                volumes.add(str(volume.get("name")))
    return frozenset(volumes)


def _mappings(value: object) -> list[Json]:
    """A list of mappings, as the API server has it. The manifest of a user may have anything there."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list | tuple) else []


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _why(container: Json, pod: Json, keeps_net_raw: bool, sees_processes: bool) -> str:
    own = _mapping(container.get("securityContext"))
    if own.get("privileged") is True:
        return "is privileged"
    changes = _mapping(own.get("capabilities"))
    added, dropped = _names(changes.get("add")), _names(changes.get("drop"))
    if not keeps_net_raw:
        dropped |= {"NET_RAW"}
    for capability in _PAST_RULES:
        if _has(capability, added, dropped):
            return f"has {capability}"
    if sees_processes and _has("SYS_PTRACE", added, dropped):
        return "has SYS_PTRACE, and sees the processes of the ADM"
    if own.get("procMount") == "Unmasked":
        return "may write to the kernel's settings (`procMount: Unmasked`)"
    return _why_by_user(own, pod, added, dropped)


def _why_by_user(own: Json, pod: Json, added: Collection[str], dropped: Collection[str]) -> str:
    user = _setting("runAsUser", own, pod)
    if user == ADM_USER:
        return f"runs as the user of the ADM ({ADM_USER})"
    unknown = user is None and _setting("runAsNonRoot", own, pod) is not True
    if _has("SETUID", added, dropped) and (user == 0 or "SETUID" in added):
        return "may become any user (root with SETUID)"
    if _has("SETUID", added, dropped) and unknown:
        return "may become any user (its user is not set: it may be root with SETUID)"
    if user is None:
        return f"may run as the user of the ADM (its user is not set: its image may say {ADM_USER})"
    stays = own.get("allowPrivilegeEscalation") is False
    if user == 0 and not stays and all(_has(capability, added, dropped) for capability in _GIVES_AWAY):
        return "may become any user (root with CHOWN and FOWNER, and without `allowPrivilegeEscalation: false`)"
    return ""


def _setting(field: str, own: Json, pod: Json) -> object:
    """The container's own settings go before those of the pod, one by one."""
    value = own.get(field)
    return pod.get(field) if value is None else value


def _names(listed: object) -> set[str]:
    return {str(name).upper().removeprefix("CAP_") for name in listed} if isinstance(listed, list | tuple) else set()


def _has(capability: str, added: Collection[str], dropped: Collection[str]) -> bool:
    """As container runtimes do it: first all are added or dropped, then single ones are added, then dropped."""
    if capability in dropped:
        return False
    if capability in added or "ALL" in added:
        return True
    return "ALL" not in dropped and capability in _DEFAULT
