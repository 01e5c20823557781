"""The reasons against an ADM in a pod, found in its template. Containers and volumes that admc wrote are left out."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject import probes
from admc.kubernetes.inject.containers import NAMES, VOLUMES, is_own, is_own_volume, not_own
from admc.kubernetes.inject.model import TemplateFinding
from admc.kubernetes.inject.names import KEEP_NET_RAW
from admc.manifests.documents import Where
from dsl.diagnostics.diagnostic import Severity
from emitters.health_probes import MAX_PROBES
from emitters.ports import ADM_USER, OWN_PORTS, STARTUP_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.kubernetes.inject.model import Installation, PodNeeds, Template
    from emitters.interception.pod import PodCaptures

CONTAINERS: Final = ("initContainers", "containers")
HOOKS: Final = ("postStart", "preStop")
TAKEN: Final = {**OWN_PORTS, STARTUP_PORT: "answers its startup probe there"}
OTHER_MESHES: Final = {
    "istio-proxy": "Istio",
    "istio-init": "Istio",
    "linkerd-proxy": "Linkerd",
    "linkerd-init": "Linkerd",
}
_TRACERS: Final = frozenset(("SYS_PTRACE", "ALL"))


def refusals(template: Template, needs: PodNeeds, installation: Installation) -> list[TemplateFinding]:
    """Return the reasons against injection, and warnings about dangers that the ADM does not prevent."""
    spec = template["spec"]
    findings = list(_names(spec)) if needs.anything else []
    if needs.captures is None:
        findings += _runs_no_wait(spec, needs)
    else:
        findings += _hosts_no_adm(spec)
        findings += _ports(spec)
        findings += _hooks(spec, needs.captures)
        findings += _probes(spec, needs.captures)
        findings += _users(spec)
        findings += _warnings(template, spec)
    if needs.anything and not is_windows(spec):
        findings += _resolves_nothing(spec, installation)
    return findings


def containers_of(spec: dict[str, Any]) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the containers of the user with their places in the template, init containers first."""
    for part in CONTAINERS:
        for index, container in enumerate(spec.get(part) or ()):
            if part == "containers" or not is_own(container):
                yield ("spec", part, index), container


def capability(name: object) -> str:
    """The name of a capability as Kubernetes writes it."""
    return str(name).upper().removeprefix("CAP_")


def _error(code: str, message: str, where: Where, cause: str, hint: str) -> TemplateFinding:
    return TemplateFinding(code, Severity.ERROR, message, where, cause, hint)


def _warning(message: str, where: Where, cause: str, hint: str) -> TemplateFinding:
    return TemplateFinding("ADM928", Severity.WARNING, message, where, cause, hint)


def _names(spec: dict[str, Any]) -> Iterator[TemplateFinding]:
    for where, container in containers_of(spec):
        if container.get("name") in NAMES:
            yield _taken(f"container `{container['name']}`", where, not_own(container) or "it is no init container")
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("name") in VOLUMES and not is_own_volume(volume):
            yield _taken(f"volume `{volume['name']}`", ("spec", "volumes", index), "its source is another")


def _taken(what: str, where: Where, why: str) -> TemplateFinding:
    cause = f"{why}; admc gives its own containers and volumes these names, and replaces only those that it wrote"
    return _error("ADM921", f"the {what} is not admc's", where, cause, "give it another name")


def _hosts_no_adm(spec: dict[str, Any]) -> Iterator[TemplateFinding]:
    if spec.get("hostNetwork") is True:
        yield _error(
            "ADM922",
            "the pod is on its node's network, and can host no ADM",
            ("spec", "hostNetwork"),
            "redirection in its network namespace would redirect the connections of the whole node",
            "leave `hostNetwork` out, or declare the service `host_network` and compile again",
        )
    if is_windows(spec):
        yield _error(
            "ADM922",
            "the pod runs on Windows, and can host no ADM",
            ("spec",),
            "an ADM needs the packet filter of Linux",
            "declare the service `no adm` and compile again",
        )


def _runs_no_wait(spec: dict[str, Any], needs: PodNeeds) -> Iterator[TemplateFinding]:
    if needs.waits and is_windows(spec):
        yield _warning(
            "the pod runs on Windows, and does not wait until ADMs know its address",
            ("spec",),
            "the image of the wait is one of Linux; for a moment after its start, ADMs may take the pod for an unknown "
            "caller, and pass connections to it without the policies of their senders",
            "let the pod begin to send requests, and become ready, some seconds after its start",
        )


def is_windows(spec: dict[str, Any]) -> bool:
    system, selector = spec.get("os"), spec.get("nodeSelector")
    return (isinstance(system, dict) and system.get("name") == "windows") or (
        isinstance(selector, dict) and selector.get("kubernetes.io/os") == "windows"
    )


def _ports(spec: dict[str, Any]) -> Iterator[TemplateFinding]:
    for where, container in containers_of(spec):
        for index, port in enumerate(container.get("ports") or ()):
            number = port.get("containerPort")
            if isinstance(number, int) and number in TAKEN and port.get("protocol", "TCP") == "TCP":
                yield _error(
                    "ADM925",
                    f"container `{container.get('name')}` listens at port {number}, which is the ADM's",
                    (*where, "ports", index, "containerPort"),
                    f"the ADM {TAKEN[number]}",
                    "let the container listen at another port",
                )


def _hooks(spec: dict[str, Any], captures: PodCaptures) -> Iterator[TemplateFinding]:
    """Yield the hooks that the kubelet sends to a redirected port. The ADM cannot answer one: it has to reach the
    process."""
    for where, container in containers_of(spec):
        lifecycle = container.get("lifecycle")
        hooks = {name: lifecycle.get(name) for name in HOOKS} if isinstance(lifecycle, dict) else {}
        for name, hook in hooks.items():
            for way, asked in probes.asked_by(hook).items():
                if not asked.get("host") and probes.is_captured(container, asked, captures):
                    yield _error(
                        "ADM923",
                        f"the {name} hook of container `{container.get('name')}` asks a port whose connections are "
                        "redirected to the ADM",
                        (*where, "lifecycle", name, way, "port"),
                        "policies are enforced on connections to this port, and a hook is a connection of a caller "
                        "that they do not know",
                        probes.OTHER_PORT,
                    )


def _probes(spec: dict[str, Any], captures: PodCaptures) -> Iterator[TemplateFinding]:
    paths: set[str] = set()
    for where, container in containers_of(spec):
        yield from probes.findings(container, where, captures)
        paths |= probes.paths(probes.pointed(container, captures))
    if len(paths) > MAX_PROBES:
        yield _error(
            "ADM923",
            f"the pod has {len(paths)} different probes of ports whose connections are redirected to the ADM",
            ("spec", "containers"),
            f"the ADM answers at most {MAX_PROBES}: each is a health check of its own in every pod of the service",
            "let several probes ask the same path, at the same times",
        )


def _users(spec: dict[str, Any]) -> Iterator[TemplateFinding]:
    context = spec.get("securityContext")
    general = context.get("runAsUser") if isinstance(context, dict) else None
    for where, container in containers_of(spec):
        own = container.get("securityContext")
        user = own.get("runAsUser") if isinstance(own, dict) else None
        if (general if user is None else user) == ADM_USER:
            yield _error(
                "ADM924",
                f"container `{container.get('name')}` runs as user {ADM_USER}, which is the ADM's",
                ("spec", "securityContext", "runAsUser") if user is None else (*where, "securityContext", "runAsUser"),
                "the packet filter lets pass what this user opens: its connections would meet no policy",
                "give it another `runAsUser`",
            )


def _warnings(template: Template, spec: dict[str, Any]) -> Iterator[TemplateFinding]:
    keeps = keeps_net_raw(template)
    for where, container in containers_of(spec):
        name = container.get("name")
        context = container.get("securityContext")
        context = context if isinstance(context, dict) else {}
        capabilities = context.get("capabilities")
        listed = capabilities.get("add") if isinstance(capabilities, dict) else None
        added = {capability(item) for item in listed or ()}
        if name in OTHER_MESHES:
            yield _warning(
                f"the pod has the container `{name}` of {OTHER_MESHES[name]}, which redirects its connections, too",
                where,
                "connections with policies then pass two proxies, and the address of the caller may be lost on the way",
                f"switch off the injection of {OTHER_MESHES[name]} for this pod",
            )
        if "NET_RAW" in added and not keeps:
            yield _warning(
                f"container `{name}` loses NET_RAW, which it adds",
                (*where, "securityContext", "capabilities", "add"),
                "with it, a container can send packets past the packet filter",
                f'the annotation `{KEEP_NET_RAW}: "true"` keeps it; the service then counts as untrusted',
            )
        if spec.get("shareProcessNamespace") is True and (context.get("privileged") is True or added & _TRACERS):
            yield _warning(
                f"container `{name}` can take over the ADM, since the pod shares its process namespace",
                ("spec", "shareProcessNamespace"),
                "a container that may trace other processes can read the ADM's token and open connections as the ADM",
                "leave `shareProcessNamespace` out, or take the right to trace away from the container",
            )


def _resolves_nothing(spec: dict[str, Any], installation: Installation) -> Iterator[TemplateFinding]:
    policy = spec.get("dnsPolicy", "ClusterFirst")
    outside = policy == "Default" or (policy == "ClusterFirst" and spec.get("hostNetwork") is True)
    if outside and not _is_address(installation.server):
        yield _warning(
            f"the pod may not find `{installation.server}`",
            ("spec", "dnsPolicy") if "dnsPolicy" in spec else ("spec", "hostNetwork"),
            "it resolves names by its node's resolver, which does not know those of the cluster, and waits until it "
            "finds the server",
            "set `dnsPolicy: ClusterFirstWithHostNet` for a pod on its node's network, and `ClusterFirst` for others",
        )


def _is_address(server: str) -> bool:
    try:
        ipaddress.ip_address(server.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


def keeps_net_raw(template: Template) -> bool:
    metadata = template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(KEEP_NET_RAW) == "true"
