"""Whether the containers of a pod can go round its redirection, judged by their specification.

    pod specification (plain JSON) -> why it hosts no ADM; why its requests may go round its ADM

Packet filter rules redirect the connections of every user but the ADM's. A container goes round its ADM if it can
change the rules (NET_ADMIN), send packets past them (NET_RAW), or become the ADM's user. Injection takes NET_RAW from
the containers of a pod. So a specification is judged as injection leaves it: the placement relies on the resulting
pods.

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
"""Annotation of a mirror pod, which stands in the API for a pod that a node runs from a file of its own."""
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
"""The capabilities that containerd gives a container that asks for none; other runtimes give fewer."""
_PAST_RULES: Final = (
    *("NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE"),
    *("BPF", "DAC_READ_SEARCH", "PERFMON", "SYS_BOOT", "SYS_RAWIO"),
)
"""NET_ADMIN changes the rules, and NET_RAW sends past them. The others lead to the kernel, or to secrets of other
processes and of the node, and so to any capability."""
_GIVES_AWAY: Final = ("CHOWN", "FOWNER")
"""With both capabilities, root can give a program to the ADM's user and set its set-user-id bit."""
_NAMED: Final = 63
"""Characters of a container's name in Kubernetes."""


def hosts_no_adm(metadata: Json, spec: Json) -> str:
    """Return why a pod cannot host an ADM; empty if it can."""
    if MIRROR in (metadata.get("annotations") or {}):
        return "mirror pod"
    selector = spec.get("nodeSelector") or {}
    systems = {(spec.get("os") or {}).get("name"), *(selector.get(label) for label in _OPERATING_SYSTEM)}
    return "Windows" if "windows" in systems else ""


def forbids_adms(labels: Mapping[str, str]) -> str:
    """Return why no pod of a namespace can host an ADM, by the namespace's labels; empty if its pods can."""
    level = labels.get(POD_SECURITY, "")
    return f"Pod Security `{level}`" if level in FORBIDDING else ""


def untrusted(spec: Json, *, injected: Collection[str] = (), keeps_net_raw: bool) -> str:
    """Return why the containers of a pod may go round its ADM; empty if they cannot.

    `injected` are the containers that are exactly as injection writes them; they are left out. With `keeps_net_raw`,
    injection does not take NET_RAW from the other containers.
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
        # Injection changes templates. An ephemeral container comes later, and keeps what it asks for.
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
    """Return the volumes with a token for a server of admc. A container that has one can answer the server in place of
    the ADM, and acknowledge a policy that is not in force."""
    volumes = set()
    for volume in _mappings(spec.get("volumes")):
        for source in _mappings(_mapping(volume.get("projected")).get("sources")):
            audience = _mapping(source.get("serviceAccountToken")).get("audience")
            if isinstance(audience, str) and audience.startswith(AUDIENCE_PREFIX):
                volumes.add(str(volume.get("name")))
    return frozenset(volumes)


def _mappings(value: object) -> list[Json]:
    """Return a list of mappings, as the API server has it; a user's manifest may have anything in its place."""
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
    """Return a setting of a container; without one, that of the pod."""
    value = own.get(field)
    return pod.get(field) if value is None else value


def _names(listed: object) -> set[str]:
    return {str(name).upper().removeprefix("CAP_") for name in listed} if isinstance(listed, list | tuple) else set()


def _has(capability: str, added: Collection[str], dropped: Collection[str]) -> bool:
    """Whether a container has a capability. Runtimes first add or drop all, then add single ones, then drop single
    ones."""
    if capability in dropped:
        return False
    if capability in added or "ALL" in added:
        return True
    return "ALL" not in dropped and capability in _DEFAULT
