"""The checks of an installation: pure functions of what was read.

Half an installation, or two of one name, are what they look for first; then what keeps ADMs out of pods.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from admc.base.checks import Check, CheckVerdict
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.names import CONTROLLER, reserved
from admc.kubernetes.cluster.program.status import conditions_of
from admc.kubernetes.doctor.lines import INSTALL, SHOWN, unread
from admc.kubernetes.doctor.picture import name_of
from admc.kubernetes.doctor.policies import policy_checks
from admc.manifests.documents import at
from dsl.words import few

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.kubernetes.doctor.picture import Picture
    from admc.kubernetes.doctor.policies import Object

LEAST: Final = (1, 30)
"""The minor version of Kubernetes from which the API server evaluates policies of admission by default."""
LEAST_KUBELET: Final = (1, 29)
"""From this minor version a kubelet starts native sidecars by default."""
LATE_SECONDS: Final = 60.0
"""How much older than its duration a Lease may seem: the clocks of this machine and of the replica differ."""
PASSING: Final = ("RollingOut", "Audit", "NotInSync", "Closing", "PodsNotReady")
"""Reasons for which a Program is not `Programmed` without a fault of the installation."""


def checks(name: str, picture: Picture, now: float) -> tuple[Check, ...]:
    """Return the lines, in the order in which each needs what the ones before it check. `now` is in seconds since
    1970."""
    return (
        _version(picture.version),
        *_nodes(picture),
        _definitions(picture),
        *_server(name, picture, now),
        *policy_checks(name, picture.policies, picture.bindings),
        *_webhook(picture),
        *_namespaces(name, picture),
        *_programs(name, picture),
    )


def _version(document: Object) -> Check:
    version = str(at(document, ("gitVersion",)))
    minor = _minor(version)
    if minor is None:
        return Check("kubernetes", CheckVerdict.UNKNOWN, f"the API server says version `{version[:50]}`")
    if minor < LEAST:
        advice = (
            "admc needs 1.30 or later: the API server of an older one does not evaluate ValidatingAdmissionPolicy, so "
            "an account that may write an `Injection` could take ADMs out of new pods"
        )
        return Check("kubernetes", CheckVerdict.BAD, version, advice)
    return Check("kubernetes", CheckVerdict.GOOD, version)


def _nodes(picture: Picture) -> Iterator[Check]:
    nodes = picture.nodes
    if isinstance(nodes, ApiError):
        yield unread("nodes", nodes)
        return
    versions = {name_of(node): str(at(node, ("status", "nodeInfo", "kubeletVersion"))) for node in nodes}
    minors = {node: _minor(version) for node, version in versions.items()}
    old = [
        f"`{node}` ({versions[node]})" for node, minor in minors.items() if minor is not None and minor < LEAST_KUBELET
    ]
    if old:
        advice = (
            "a kubelet before 1.29 does not start an ADM before the containers: keep pods with ADMs off these nodes"
        )
        yield Check("nodes", CheckVerdict.BAD, f"{len(old)} of {len(nodes)} are too old: {few(old, SHOWN)}", advice)
    else:
        yield Check("nodes", CheckVerdict.GOOD, f"{len(nodes)}, with kubelets of 1.29 or later")


def _definitions(picture: Picture) -> Check:
    if isinstance(picture.kinds, ApiError):
        if not picture.kinds.is_not_found:
            return unread("definitions", picture.kinds)
        return Check("definitions", CheckVerdict.BAD, "the cluster does not have the kinds of admc", INSTALL)
    listed = at(picture.kinds, ("resources",))
    served = {at(kind, ("name",)) for kind in listed} if isinstance(listed, list) else set()
    lacking = [name for name in ("programs", "injections") if name not in served]
    if lacking:
        advice = f"they are those of an earlier release: {INSTALL}"
        return Check("definitions", CheckVerdict.BAD, f"the cluster does not have {few(lacking, SHOWN)}", advice)
    return Check("definitions", CheckVerdict.GOOD, "Program, Injection")


def _server(name: str, picture: Picture, now: float) -> Iterator[Check]:
    deployments = picture.deployments
    if isinstance(deployments, ApiError):
        yield unread("server", deployments)
        return
    if not deployments:
        yield Check("server", CheckVerdict.BAD, f"no Deployment of an installation `{name}`", INSTALL)
    if len(deployments) > 1:
        where = few([f"`{at(deployment, ('metadata', 'namespace'))}`" for deployment in deployments], SHOWN)
        advice = "objects of the whole cluster have the name of the installation, so both would use them: remove one"
        yield Check(
            "server", CheckVerdict.BAD, f"{len(deployments)} installations `{name}`, in namespaces {where}", advice
        )
    for deployment in deployments:
        yield _replicas(deployment)
        namespace = str(at(deployment, ("metadata", "namespace")))
        yield _active(namespace, picture.leases[namespace], now)


def _replicas(deployment: Object) -> Check:
    namespace, name = at(deployment, ("metadata", "namespace")), name_of(deployment)
    wanted, ready = at(deployment, ("spec", "replicas")), at(deployment, ("status", "readyReplicas")) or 0
    state = f"{ready} of {wanted} replicas of `{namespace}/{name}` are ready"
    if ready == wanted:
        return Check("server", CheckVerdict.GOOD, state)
    return Check("server", CheckVerdict.BAD, state, f"`kubectl -n {namespace} describe pods`, and the logs of its pods")


def _active(namespace: str, lease: Object | ApiError, now: float) -> Check:
    subject, logs = "active replica", f"`kubectl -n {namespace} logs` of its pods shows why"
    if isinstance(lease, ApiError):
        if lease.is_not_found:
            return Check(subject, CheckVerdict.BAD, "none yet: there is no Lease", logs)
        return unread(subject, lease)
    holder = at(lease, ("spec", "holderIdentity"))
    if not holder:
        return Check(subject, CheckVerdict.BAD, "none: no replica holds the Lease", logs)
    renewed, duration = _seconds(at(lease, ("spec", "renewTime"))), at(lease, ("spec", "leaseDurationSeconds"))
    if renewed is None or not isinstance(duration, int):
        return Check(subject, CheckVerdict.UNKNOWN, f"`{holder}`, and its Lease has no times")
    if now - renewed > duration + LATE_SECONDS:
        state = f"`{holder}` renewed its Lease {now - renewed:,.0f} s ago, by the clock of this machine"
        return Check(subject, CheckVerdict.BAD, state, logs)
    return Check(subject, CheckVerdict.GOOD, f"`{holder}`")


def _webhook(picture: Picture) -> Iterator[Check]:
    configuration = picture.webhook
    if isinstance(configuration, ApiError):
        if configuration.is_not_found:
            advice = "pods get their ADMs from manifests alone (`admc inject`); the value `webhook` of the chart has it"
            yield Check("webhook", CheckVerdict.OPTIONAL, "none", advice)
        else:
            yield unread("webhook", configuration)
        return
    webhooks = at(configuration, ("webhooks",))
    bundles = [at(webhook, ("clientConfig", "caBundle")) for webhook in webhooks or ()]
    if not bundles or not all(bundles):
        advice = "the active replica writes it: see its log (ADM973)"
        yield Check("webhook", CheckVerdict.BAD, "the API server does not trust it yet: it has no `caBundle`", advice)
    for namespace, slices in picture.endpoints.items():
        if isinstance(slices, ApiError):
            yield unread("webhook", slices)
            continue
        ready = sum(map(_ready, slices))
        if not ready:
            advice = "new pods start without their ADM, or are refused by the guard"
            yield Check("webhook", CheckVerdict.BAD, f"no replica in `{namespace}` answers it", advice)
        elif bundles and all(bundles):
            yield Check("webhook", CheckVerdict.GOOD, f"{ready} replicas answer it")


def _ready(endpoint_slice: Object) -> int:
    endpoints = at(endpoint_slice, ("endpoints",))
    listed = endpoints if isinstance(endpoints, list) else []
    return sum(at(endpoint, ("conditions", "ready")) is not False for endpoint in listed)


def _namespaces(name: str, picture: Picture) -> Iterator[Check]:
    namespaces = picture.namespaces
    if isinstance(namespaces, ApiError):
        yield unread("namespaces", namespaces)
        return
    deployments = () if isinstance(picture.deployments, ApiError) else picture.deployments
    own = {str(at(deployment, ("metadata", "namespace"))) for deployment in deployments}
    names = [name_of(namespace) for namespace in namespaces]
    without_effect = {space: why for space in names if (why := reserved(space, space if space in own else ""))}
    taking_part = [namespace for namespace in namespaces if name_of(namespace) not in without_effect]
    if taking_part:
        yield Check(
            "namespaces", CheckVerdict.GOOD, few([f"`{name_of(namespace)}`" for namespace in taking_part], SHOWN)
        )
    else:
        advice = f"`kubectl label namespace NAMESPACE {CONTROLLER}={name}`"
        yield Check("namespaces", CheckVerdict.OPTIONAL, "none takes part", advice)
    for space, why in without_effect.items():
        state = f"`{space}` has the label `{CONTROLLER}={name}`, and takes no part: {why}"
        advice = f"take the label off: `kubectl label namespace {space} {CONTROLLER}-`"
        yield Check("namespaces", CheckVerdict.BAD, state, advice)
    strict = [name_of(namespace) for namespace in taking_part if _enforces(namespace) in ("baseline", "restricted")]
    if strict:
        state = f"{few([f'`{space}`' for space in strict], SHOWN)}: Pod Security refuses pods with an ADM"
        advice = (
            "the init container that loads packet filter rules needs NET_ADMIN: keep services with an ADM out of them"
        )
        yield Check("pod security", CheckVerdict.BAD, state, advice)


def _enforces(namespace: Object) -> object:
    labels = at(namespace, ("metadata", "labels"))
    return labels.get("pod-security.kubernetes.io/enforce") if isinstance(labels, dict) else None


def _programs(name: str, picture: Picture) -> Iterator[Check]:
    programs = picture.programs
    if isinstance(programs, ApiError):
        if not programs.is_not_found:  # without the definition, that is said above
            yield unread("programs", programs)
        return
    own = [program for program in programs if at(program, ("spec", "controller")) == name]
    if not own:
        yield Check(
            "programs", CheckVerdict.OPTIONAL, "none", f"a Program with `spec.controller: {name}` brings the policies"
        )
    for program in own:
        yield _program(program)


def _program(program: Object) -> Check:
    name, status = name_of(program), at(program, ("status",))
    conditions = conditions_of(status) if isinstance(status, dict) else {}
    if not conditions:
        return Check("programs", CheckVerdict.BAD, f"`{name}` has no conditions", "no replica has read it: see its log")
    states = [f"{kind}={condition.get('status')}" for kind, condition in sorted(conditions.items())]
    faults = [
        str(condition.get("reason"))
        for condition in conditions.values()
        if condition.get("status") == "False" and condition.get("reason") not in PASSING
    ]
    state = f"`{name}`: {', '.join(states)}"
    if faults:
        reasons = ", ".join(sorted(set(faults)))
        return Check("programs", CheckVerdict.BAD, f"{state} ({reasons})", f"`kubectl describe program {name}`")
    return Check("programs", CheckVerdict.GOOD, state)


def _minor(version: str) -> tuple[int, int] | None:
    match = re.match(r"v(\d{1,4})\.(\d{1,4})\.", version)
    return None if match is None else (int(match[1]), int(match[2]))


def _seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
