"""Which kinds of resources there are: those of the data file, those that Istio once had, and all others."""

from __future__ import annotations

from typing import Any, Final

from admc.istio.schemas.data import kinds
from admc.istio.schemas.used_fields import FIELDS
from admc.istio.schemas.violation import Violation
from dsl.diagnostics.diagnostic import Severity, did_you_mean

_ISTIO: Final = ("istio.io", ".istio.io")
_KUSTOMIZE: Final = "kustomize.config.k8s.io"
_GATEWAY: Final = "gateway.networking.k8s.io"
REMOVED: Final[dict[str, str]] = {
    "rbac.istio.io": "since Istio 1.6; an `AuthorizationPolicy` says who may call",
    "authentication.istio.io": "since Istio 1.6; `PeerAuthentication` and `RequestAuthentication` took its place",
    "config.istio.io": "with Mixer, since Istio 1.8; `Telemetry`, `EnvoyFilter` and `WasmPlugin` took its place",
}
"""API groups that Istio has given up -> since when, and what took their place."""
_READ: Final = frozenset(group for group, _ in FIELDS if group.endswith(_ISTIO))
"""Groups of Istio whose objects hold settings, and no resource of the mesh."""
_CLUSTER_SCOPED: Final = frozenset(
    (
        ("", "Namespace"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("sailoperator.io", "Istio"),
        ("sailoperator.io", "IstioRevision"),
        ("sailoperator.io", "IstioRevisionTag"),
    )
)


NO_OBJECT: Final = Violation(
    "ADM911",
    (),
    "this is no object of Kubernetes: it lacks `apiVersion` or `kind`",
    None,
    "give manifests alone; files of values, and configuration of other tools, are something else",
)


def is_no_object(data: dict[str, Any]) -> bool:
    return not isinstance(data.get("apiVersion"), str) or not isinstance(data.get("kind"), str)


def is_cluster_scoped(group: str, kind: str) -> bool:
    known = kinds().get((group, kind))
    return not known.namespaced if known is not None else (group, kind) in _CLUSTER_SCOPED


def finding_of_kind(data: dict[str, Any]) -> tuple[Violation, Severity] | None:
    """What is wrong with the kind or the version of an object."""
    if is_no_object(data):
        return NO_OBJECT, Severity.ERROR
    version, kind = str(data["apiVersion"]), str(data["kind"])
    group, _, number = version.rpartition("/")
    if group == _KUSTOMIZE:
        hint = "`kustomize build DIR | admc advise -`, with the folder of this file"
        message = "this is the source of a kustomization, and no object"
        return Violation("ADM910", (), message, None, hint), Severity.ERROR
    if group in REMOVED:
        message = f"`{version}` {kind} is no kind of Istio any more"
        return Violation("ADM911", ("kind",), message, f"removed {REMOVED[group]}"), Severity.ERROR
    if group in _READ or not (group.endswith(_ISTIO) or group == _GATEWAY):
        return None
    known = kinds().get((group, kind))
    if known is None:
        others = [other for of_group, other in kinds() if of_group == group] or [name for _, name in kinds()]
        message = f"`{version}` has no kind `{kind[:100]}`"
        return Violation("ADM911", ("kind",), message, None, did_you_mean(kind, others)), Severity.ERROR
    if number not in known.schemas:
        versions = ", ".join(f"`{group}/{name}`" for name in known.schemas)
        message = f"there is no version `{version}` of {kind}"
        return Violation("ADM911", ("apiVersion",), message, None, f"it has the versions {versions}"), Severity.ERROR
    return None
