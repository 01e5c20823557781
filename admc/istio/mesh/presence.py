"""Which proxy a pod has, by the rules of Istio's injector.

They are those of its webhooks, of `injectRequired` in pkg/kube/inject, and of the selectors of its CNI plugin for
ambient, at the version of the data file. A pod that runs says it by its containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.mesh.model import Declaration, Place, Presence, Proxy
from admc.manifests.documents import Object, Where, at

if TYPE_CHECKING:
    from admc.istio.mesh.model import Revision

DEFAULT_REVISION: Final = "default"
CONTAINER: Final = "istio-proxy"
INJECT: Final = "sidecar.istio.io/inject"
REVISION: Final = "istio.io/rev"
INJECTION: Final = "istio-injection"
DATAPLANE: Final = "istio.io/dataplane-mode"
_TEMPLATES: Final = "inject.istio.io/templates"
_GATEWAY_NAME: Final = "gateway.networking.k8s.io/gateway-name"
IGNORED: Final = frozenset(("kube-system", "kube-public", "kube-node-lease", "local-path-storage"))


class Injecting(NamedTuple):
    """What is the same for all pods of a mesh."""

    namespaces: Mapping[str, Object]
    revisions: Mapping[str, Revision]
    tags: Mapping[str, str]
    injected: frozenset[str] | None = frozenset()
    """The namespaces of `--injected`; None for all."""
    gateways: tuple[Mapping[str, str], ...] = ()
    """The selectors of Istio's Gateways."""

    def revision(self, name: str) -> Revision | None:
        return self.revisions.get(self.tags.get(name, name))


class _Pod(NamedTuple):
    """A pod or a pod template, and its place."""

    object: Object
    where: Where
    spec: Mapping[str, Any]
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]

    def label(self, name: str) -> Place:
        return Place(self.object, (*self.where, "metadata", "labels", name))

    def annotation(self, name: str) -> Place:
        return Place(self.object, (*self.where, "metadata", "annotations", name))


def presence(manifest: Object, where: Where, mesh: Injecting) -> Presence:
    """The proxy of a pod, or of the pods of a template at a place of an object."""
    template = at(manifest.data, where)
    pod = _Pod(
        manifest,
        where,
        _mapping(at(template, ("spec",))),
        _mapping(at(template, ("metadata", "labels"))),
        _mapping(at(template, ("metadata", "annotations"))),
    )
    container = _proxy_container(pod)
    if container is not None:
        proxy = Proxy.GATEWAY if _is_gateway(pod, container, mesh) else Proxy.SIDECAR
        return Presence(proxy, Declaration.CONTAINER, container, _revision_of(pod))
    runs = not where and manifest.metadata.get("uid") is not None
    injected = _host_network(pod) or (None if runs else _injected(pod, mesh))
    if injected is not None and injected.proxy is not Proxy.NONE:
        return injected
    ambient = None if injected is not None and injected.by is Declaration.HOST_NETWORK else _ambient(pod, mesh)
    if ambient is not None:
        return ambient
    return injected or Presence(Proxy.NONE, Declaration.LIVE)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _proxy_container(pod: _Pod) -> Place | None:
    """The container of the proxy; among the init containers one that goes on running, a native sidecar."""
    for part in ("containers", "initContainers"):
        for index, container in enumerate(pod.spec.get(part) or ()):
            if not isinstance(container, dict) or container.get("name") != CONTAINER:
                continue
            if part == "containers" or container.get("restartPolicy") == "Always":
                return Place(pod.object, (*pod.where, "spec", part, index))
    return None


def _is_gateway(pod: _Pod, container: Place, mesh: Injecting) -> bool:
    """Whether the pod itself is a proxy. An application that a Gateway selects by its labels is none: it has other
    containers, and its proxy runs as a sidecar."""
    if _asks_for_gateway(pod):
        return True
    args = at(container.object.data, (*container.where, "args"))
    if isinstance(args, list) and args[:1] == ["proxy"]:
        return "router" in args
    alone = [it for it in pod.spec.get("containers") or () if isinstance(it, dict) and it.get("name") != CONTAINER]
    return not alone and any(_selects(selector, pod.labels) for selector in mesh.gateways)


def _asks_for_gateway(pod: _Pod) -> bool:
    templates = str(pod.annotations.get(_TEMPLATES) or "")
    return "gateway" in templates or "waypoint" in templates or _GATEWAY_NAME in pod.labels


def _selects(selector: Mapping[str, str], labels: Mapping[str, Any]) -> bool:
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _host_network(pod: _Pod) -> Presence | None:
    if not pod.spec.get("hostNetwork"):
        return None
    place = Place(pod.object, (*pod.where, "spec", "hostNetwork"))
    return Presence(Proxy.NONE, Declaration.HOST_NETWORK, place)


def _injected(pod: _Pod, mesh: Injecting) -> Presence:
    """Whether the injector gives a pod its sidecar when it starts."""
    if pod.object.namespace in IGNORED:
        return Presence(Proxy.NONE, Declaration.SYSTEM_NAMESPACE)
    chosen = _chosen(pod, mesh)
    if chosen.proxy is Proxy.NONE:
        return chosen
    wish, place = _wish(pod)
    if wish is False:
        return Presence(Proxy.NONE, _declaration(pod), place)
    revision = mesh.revision(chosen.revision or DEFAULT_REVISION)
    if wish is None and revision is not None and not revision.injects_unasked:
        return Presence(Proxy.NONE, Declaration.POLICY_DISABLED, revision.source)
    proxy = Proxy.GATEWAY if _asks_for_gateway(pod) else Proxy.SIDECAR
    return Presence(proxy, chosen.by, chosen.place, chosen.revision)


def _wish(pod: _Pod) -> tuple[bool | None, Place | None]:
    """What the pod asks of the injector; None if it leaves it to the namespace. The label goes before the
    annotation."""
    label, annotation = pod.labels.get(INJECT), pod.annotations.get(INJECT)
    place = pod.label(INJECT) if label is not None else pod.annotation(INJECT)
    # Only these two are accepted; with another value the injector does what it does without.
    wish = {"true": True, "false": False}.get(str(label if label is not None else annotation))
    return wish, None if wish is None else place


def _declaration(pod: _Pod) -> Declaration:
    return Declaration.POD_LABEL if pod.labels.get(INJECT) is not None else Declaration.POD_ANNOTATION


def _chosen(pod: _Pod, mesh: Injecting) -> Presence:
    """The webhook that selects a pod, by the labels of its namespace and its own."""
    if pod.labels.get(INJECT) == "false":
        return Presence(Proxy.NONE, Declaration.POD_LABEL, pod.label(INJECT))
    namespace = mesh.namespaces.get(pod.object.namespace)
    labels = _mapping(at(namespace.data, ("metadata", "labels"))) if namespace is not None else {}
    if namespace is not None and INJECTION in labels:
        place = Place(namespace, ("metadata", "labels", INJECTION))
        if labels[INJECTION] == "enabled":
            return Presence(Proxy.SIDECAR, Declaration.NAMESPACE_LABEL, place, DEFAULT_REVISION)
        return Presence(Proxy.NONE, Declaration.NAMESPACE_LABEL, place)
    if namespace is not None and REVISION in labels:
        place = Place(namespace, ("metadata", "labels", REVISION))
        return Presence(Proxy.SIDECAR, Declaration.NAMESPACE_LABEL, place, str(labels[REVISION]))
    if REVISION in pod.labels:
        return Presence(Proxy.SIDECAR, Declaration.POD_LABEL, pod.label(REVISION), str(pod.labels[REVISION]))
    if pod.labels.get(INJECT) == "true":
        return Presence(Proxy.SIDECAR, Declaration.POD_LABEL, pod.label(INJECT), DEFAULT_REVISION)
    return _without_labels(pod, mesh)


def _without_labels(pod: _Pod, mesh: Injecting) -> Presence:
    default = mesh.revision(DEFAULT_REVISION)
    if default is not None and default.injects_all and INJECT not in pod.labels:
        return Presence(Proxy.SIDECAR, Declaration.ALL_NAMESPACES, default.source, DEFAULT_REVISION)
    if mesh.injected is None or pod.object.namespace in mesh.injected:
        return Presence(Proxy.SIDECAR, Declaration.OPTION, None, DEFAULT_REVISION)
    return Presence(Proxy.NONE, Declaration.NOTHING)


def _ambient(pod: _Pod, mesh: Injecting) -> Presence | None:
    """The presence of a pod whose node's proxy carries its traffic. None if no label says so."""
    mode = pod.labels.get(DATAPLANE)
    if mode is not None:
        proxy = Proxy.AMBIENT if mode == "ambient" else Proxy.NONE
        return Presence(proxy, Declaration.POD_LABEL, pod.label(DATAPLANE))
    namespace = mesh.namespaces.get(pod.object.namespace)
    if namespace is None or at(namespace.data, ("metadata", "labels", DATAPLANE)) != "ambient":
        return None
    place = Place(namespace, ("metadata", "labels", DATAPLANE))
    return Presence(Proxy.AMBIENT, Declaration.NAMESPACE_LABEL, place)


def _revision_of(pod: _Pod) -> str | None:
    revision = pod.labels.get(REVISION) or pod.annotations.get(REVISION)
    return None if revision is None else str(revision)
