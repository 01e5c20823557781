"""Where the cluster does not fit the program, as findings.

    Selection --> findings, each at the line of the service

An error means that requests would meet other policies than those of the program, and no ADM can correct that: a new
program with an error is refused. A warning is about a missing Service, one without a selector, with one that admc does
not use, or with other labels than in the program, or a pod on the host's network that the plan in force does not
expect. ADMs refuse the connections that may be those of a service whose addresses are not known, so no connection
passes without its policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.core.probes import learned
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.inject.names import POD_LABELS
from admc.kubernetes.inject.selectors import ITS_SELECTOR_ALONE, PART_OF_IT, SHORTER
from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity, did_you_mean
from dsl.syntax.tokens import label_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from admc.kubernetes.cluster.core.selection import Selection
    from admc.kubernetes.cluster.records import Namespace, Service


SUGGESTED: Final = 10
"""How many findings suggest a similar name; no more are shown. Each suggestion takes up to 20 ms."""
REASONS: Final = 2
"""How many different reasons a finding shows."""
UNRECOGNISED: Final = "ADM953"


def takes_part(namespace: Namespace | None, controller: str) -> bool:
    """Whether a namespace takes part in an installation."""
    return (
        namespace is not None
        and not namespace.is_terminating
        and not namespace.reserved
        and namespace.labels.get(CONTROLLER) == controller
    )


ByService = Mapping[str, tuple[Diagnostic, ...]]
"""Service -> its findings, in the order of names; a service without findings is absent."""


def renewed(before: ByService, selection: Selection, names: Iterable[str]) -> ByService:
    """Return the findings of all services after a change of the services `names`."""
    after = dict(before)
    for name in sorted(names):
        if diagnostics := tuple(_of_service(selection, name, suggests=len(after) < SUGGESTED)):
            after[name] = diagnostics
        else:
            after.pop(name, None)
    return before if after == before else dict(sorted(after.items()))


def findings(selection: Selection, by_service: ByService, controller: str) -> tuple[Diagnostic, ...]:
    """Return the findings about namespaces that do not take part in the installation `controller`, then those about
    the services of all other namespaces."""
    first: dict[str, str] = {}
    for name in sorted(selection.keys):
        first.setdefault(selection.keys[name].namespace, name)
    outside = {
        namespace: name for namespace, name in first.items() if not takes_part(selection.namespace(name), controller)
    }
    of_services = (
        diagnostic
        for name, diagnostics in by_service.items()
        if selection.keys[name].namespace not in outside
        for diagnostic in diagnostics
    )
    return (*(_not_taking_part(selection, controller, name) for _, name in sorted(outside.items())), *of_services)


def labels_without_effect(reserved: Iterable[Namespace], controller: str) -> Iterator[Diagnostic]:
    """Yield the findings about namespaces that take no part although they have the label of the installation
    `controller`. No service has to be there: an operator who has set the label expects something of it."""
    for namespace in reserved:
        if namespace.reserved and namespace.labels.get(CONTROLLER) == controller:
            yield Diagnostic(
                "ADM944",
                Severity.WARNING,
                f"the namespace `{namespace.name}` has the label `{CONTROLLER}={controller}`, and takes no part",
                None,
                cause=namespace.reserved,
                hint=f"take the label off: {_unlabelled(namespace.name)}",
            )


def _unlabelled(namespace: str) -> str:
    return f"`kubectl label namespace {namespace} {CONTROLLER}-`"


def _not_taking_part(selection: Selection, controller: str, name: str) -> Diagnostic:
    record, namespace = selection.namespace(name), selection.keys[name].namespace
    label = None if record is None else record.labels.get(CONTROLLER)
    hint = f"`kubectl label namespace {namespace} {CONTROLLER}={controller}`, if it shall"
    if record is None:
        why, hint = "there is no such namespace", "apply it, or correct the `namespace` of the services"
    elif record.is_terminating:
        why, hint = "it is being deleted", "take its services out of the program"
    elif record.reserved:
        why, hint = record.reserved, "run the services in another namespace, or take them out of the program"
        if label is not None:
            hint += f"; and take the label off: {_unlabelled(namespace)}"
    elif label is None:
        why = f"it has no label `{CONTROLLER}`"
    else:
        why = f"its label `{CONTROLLER}` is `{label}`"
    return Diagnostic(
        "ADM944",
        Severity.ERROR,
        f"the namespace `{namespace}` of `{name}` takes no part in `{controller}`",
        selection.program.services[name].span,
        cause=why,
        hint=hint,
    )


def _of_service(selection: Selection, name: str, *, suggests: bool) -> Iterator[Diagnostic]:
    others = selection.shared_with(name)
    if others and others[0] > name:  # one finding for both
        yield _shared(selection, name, others)
    service = selection.service(name)
    if why := selection.unusable(name):
        yield _unusable(selection, name, why)
    elif service is None:
        yield _absent(selection, name, suggests=suggests)
    elif service.external_name:
        yield Diagnostic(
            "ADM940",
            Severity.ERROR,
            f"the Service of `{name}` is a name outside of the cluster, `{service.external_name[:253]}`",
            selection.program.services[name].span,
            cause="its pods are not in the cluster, so they have no ADM and no known address",
            hint=f'declare it as an outside party: `external {name} {{ host "{service.external_name[:253]}" }}`',
        )
    else:
        yield from _host_network(selection, name)
        yield from _unrecognised(selection, name)
        yield from _probes(selection, name)
        yield from _ports(selection, name, service)
        yield from _selector(selection, name, service)
        if service.fault:
            yield _fault(selection, name, service)


def _shared(selection: Selection, name: str, others: tuple[str, ...]) -> Diagnostic:
    program, other = selection.program, others[0]
    same = selection.keys[name] == selection.keys[other]
    more = f" (and with {len(others) - 1} more)" if len(others) > 1 else ""
    what = "have the same Service" if same else "have a pod in common"
    return Diagnostic(
        "ADM942",
        Severity.ERROR,
        f"`{name}` and `{other}` {what}{more}",
        program.services[name].span,
        cause="a pod has one ADM, which enforces the policies of one service; connections that may be theirs are "
        "refused meanwhile",
        hint="declare one service with the ports of both"
        + (
            "; or name another Service in `spec.services`"
            if same
            else "; or give the Services selectors without common pods"
        ),
        related=(Related(program.services[other].span, f"`{other}` is here"),),
    )


def _unusable(selection: Selection, name: str, why: str) -> Diagnostic:
    key = selection.keys[name]
    return Diagnostic(
        "ADM965",
        Severity.WARNING,
        f"admc does not use the selector of the Service `{key.name}` in the namespace `{key.namespace}` for `{name}`",
        selection.program.services[name].span,
        cause=f"{why}; the Service counts as absent: connections that may be those of the service are refused where a "
        "policy depends on it, and if the service is guarded, its last selector stays",
        hint=SHORTER,
    )


def _fault(selection: Selection, name: str, service: Service) -> Diagnostic:
    key = service.key
    return Diagnostic(
        "ADM967",
        Severity.WARNING,
        f"the annotation `{POD_LABELS}` of the Service `{key.name}` in the namespace `{key.namespace}` is not used for "
        f"`{name}`",
        selection.program.services[name].span,
        cause=f"{service.fault}; {ITS_SELECTOR_ALONE}",
        hint=PART_OF_IT,
    )


def _absent(selection: Selection, name: str, *, suggests: bool) -> Diagnostic:
    key = selection.keys[name]
    others = sorted(selection.other_services(key.namespace)) if suggests else ()
    return Diagnostic(
        "ADM940",
        Severity.WARNING,
        f"there is no Service `{key.name}` in the namespace `{key.namespace}` for `{name}`",
        selection.program.services[name].span,
        cause="which pods are those of the service is not known; connections that may be theirs are refused where a "
        "policy depends on it",
        hint=did_you_mean(key.name, others)
        or "apply the Service, or name another one for it in `spec.services` of the Program object",
    )


def _host_network(selection: Selection, name: str) -> Iterator[Diagnostic]:
    service = selection.program.services[name]
    if selection.surprises_by_host_network(name):
        yield Diagnostic(
            "ADM940",
            Severity.WARNING,
            f"`{name}` has a pod on the host's network, and the plan in force was made without one",
            service.span,
            cause="its address is that of everything on the node; until a plan rests on this fact, connections that "
            "may be those of the service are refused",
            hint="if no such plan is possible, another finding says why",
        )


def _unrecognised(selection: Selection, name: str) -> Iterator[Diagnostic]:
    """Yield one finding for all pods of the service. Replicas have the same reason."""
    reasons = sorted({pod.unrecognised for pod in selection.pods(name).values()} - {""})
    if reasons:
        more = f"; and {len(reasons) - REASONS} more" if len(reasons) > REASONS else ""
        yield Diagnostic(
            UNRECOGNISED,
            Severity.WARNING,
            f"`{name}` has a pod with containers that have admc's names and are not as admc writes them",
            selection.program.services[name].span,
            cause="; ".join(reasons[:REASONS]) + more,
            hint="let webhooks leave admc's containers as they are, write the manifest again with `admc inject`, and "
            "replace the pods; `admc explain ADM953` tells more",
        )


def _probes(selection: Selection, name: str) -> Iterator[Diagnostic]:
    if fault := learned(selection, name).fault:
        yield Diagnostic(
            "ADM954",
            Severity.WARNING,
            f"the ADMs of `{name}` do not answer a probe of its pods",
            selection.program.services[name].span,
            cause=fault,
            hint="pass the manifest through `admc inject` again, which says what is wrong with the probe, if it is; "
            "until then the kubelet gets 404 for it",
        )


def _ports(selection: Selection, name: str, service: Service) -> Iterator[Diagnostic]:
    declared = selection.program.services[name]
    targets = {port.number: port.target for port in service.ports if port.protocol == "TCP"}
    if not service.addresses and not targets:
        return  # a headless Service needs no ports: callers dial those of the pods
    causes = []
    for port in declared.ports:
        if port.number not in targets:
            has = ", ".join(str(number) for number in sorted(targets)[:5]) or "none"
            causes.append(f"its Service has no TCP port {port.number}; it has {has}")
            continue
        target = targets[port.number]
        if service.selector and isinstance(target, int) and target != port.target:
            causes.append(f"the target of port {port.number} is {target}, and {port.target} in the program")
    if wrong := selection.misfit(name):
        causes.append(wrong)
    if causes:
        yield Diagnostic(
            "ADM943",
            Severity.ERROR,
            f"the ports of `{name}` are other ones in the cluster",
            declared.span,
            cause="; ".join(causes),
            hint="an ADM takes connections to the ports of the program: correct them there, as in `http 80 -> 8080`, "
            "or in the Service",
        )


def _selector(selection: Selection, name: str, service: Service) -> Iterator[Diagnostic]:
    declared = selection.program.services[name]
    if not service.selector:
        yield Diagnostic(
            "ADM941",
            Severity.WARNING,
            f"the Service of `{name}` has no selector",
            declared.span,
            cause="EndpointSlices say where it is, and no pod is known to be its own, so no ADM is configured for it",
            hint="give the Service a selector; or declare the service `no adm`, or an `external`, if it has no pods",
        )
    elif declared.labels and dict(declared.labels) != dict(service.selector):
        selected = ", ".join(label_text(key, value) for key, value in sorted(service.selector.items())[:5])
        yield Diagnostic(
            "ADM941",
            Severity.WARNING,
            f"the labels of `{name}` are not those that its Service selects",
            declared.span,
            cause=f"NetworkPolicies select its pods as the Service does: {selected}",
            hint="write these labels, or none, in the program",
        )
