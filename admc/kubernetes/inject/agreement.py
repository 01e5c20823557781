"""Compares the Services of the given manifests with the services of the program: ports, targets, selectors.

An ADM takes the connections to the ports that the program names, and a NetworkPolicy selects pods by the labels that
the program names. If the manifests have others, a policy is enforced on nothing, and nothing else shows that: it is an
error. A difference on which no policy depends is a warning, and so is one that may be none: a selector or a port name
that fits no given pod, or another way to a port. In a cluster the server makes the same comparison
(`admc.kubernetes.cluster.core.mismatches`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from admc.kubernetes.inject.model import TemplateFinding
from admc.kubernetes.inject.names import POD_LABELS
from admc.kubernetes.inject.reliance import listed
from admc.kubernetes.inject.selectors import ITS_SELECTOR_ALONE, PART_OF_IT, SHORTER
from admc.kubernetes.inject.services import is_service, pods_of
from admc.manifests.documents import Where, at
from dsl.diagnostics.diagnostic import Severity
from dsl.syntax.tokens import label_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from admc.kubernetes.inject.plan_rows import PortRow, ServiceRow
    from admc.kubernetes.inject.selectors import Selected
    from admc.kubernetes.inject.services import Services
    from admc.manifests.documents import Object

ManifestFinding = tuple["Object", TemplateFinding]
"""An object, and a finding about it. The place of the finding is in the object's template if it has one."""
_SHOWN = 5


class _Template(NamedTuple):
    object: Object
    service: str | None
    labels: Mapping[str, Any]
    template: Mapping[str, Any]


def disagreements(services: Services, manifests: Iterable[Object]) -> Iterator[ManifestFinding]:
    """Yield the findings in the order of the manifests."""
    manifests = list(manifests)
    of_service: dict[str, list[_Template]] = {}
    for manifest in manifests:
        template = _template(manifest, services)
        if template is not None and template.service is not None:
            of_service.setdefault(template.service, []).append(template)
    unselected = _unselected(services, manifests)
    rows = services.plan.services
    for manifest in manifests:
        if is_service(manifest):
            if (name := services.named(manifest)) is not None:
                row = rows[name]
                yield from _service(name, row, manifest, of_service.get(name, ()))
                if (
                    name not in of_service
                    and row.needs.captures is not None
                    and name in unselected
                    and pods_of(manifest).pods
                ):
                    yield manifest, _selects_nothing(name, row, unselected[name])
            else:
                yield from _other(rows, manifest, services, of_service)
        elif (template := _template(manifest, services)) is not None:
            if template.service is not None:
                yield from _host_ports(rows[template.service], template)
            yield from _carries_labels_of_another(rows, services, template)


def _template(manifest: Object, services: Services) -> _Template | None:
    template = at(manifest.data, manifest.template) if manifest.template is not None else None
    if not isinstance(template, dict):
        return None
    labels = at(template, ("metadata", "labels"))
    labels = labels if isinstance(labels, dict) else {}
    service = services.of(manifest.namespace, labels)
    return None if isinstance(service, TemplateFinding) else _Template(manifest, service, labels, template)


def _unselected(services: Services, manifests: Iterable[Object]) -> Mapping[str, Object]:
    """Service of the program -> a template that belongs to no service, and has the name or the labels of this one."""
    unselected: dict[str, Object] = {}
    for manifest in manifests:
        template = _template(manifest, services)
        if template is not None and template.service is None:
            named = services.known_as(manifest.namespace, manifest.name)
            for name in (*((named,) if named else ()), *services.by_labels(manifest.namespace, template.labels)):
                unselected.setdefault(name, manifest)
    return unselected


def _selects_nothing(name: str, row: ServiceRow, template: Object) -> TemplateFinding:
    relying = _policies(row)
    return _finding(
        "ADM941",
        False,
        f"it does not select the pods of {template.kind} `{template.name}`",
        ("spec", "selector"),
        f"no pod in these manifests gets the ADM of `{name}`" + (f", for {listed(relying)}" if relying else ""),
        "correct the selector, or the labels of the pods",
    )


def _service(name: str, row: ServiceRow, manifest: Object, templates: Sequence[_Template]) -> Iterator[ManifestFinding]:
    spec = manifest.data.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    relying = _policies(row)
    if spec.get("type") == "ExternalName":
        yield (
            manifest,
            _finding(
                "ADM940",
                True,
                f"it is a name outside of the cluster, and `{name}` is a service of the program",
                ("spec", "type"),
                "its pods are not in the cluster, so no ADM and no NetworkPolicy meets its connections",
                f"declare it as an outside party: `external {name} {{ host ... }}`",
            ),
        )
        return
    its = pods_of(manifest)
    if its.fault or its.unusable:
        yield manifest, _not_used(its)
    if its.unusable:
        return
    if not its.pods:
        yield (
            manifest,
            _finding(
                "ADM941",
                bool(relying or row.needs.captures),
                f"it has no selector, so no pod is known to be of the service `{name}`",
                ("spec",),
                f"no pod gets the ADM or the wait of `{name}`" + (f", for {listed(relying)}" if relying else ""),
                "give the Service a selector; or declare the service `no adm`, or an `external`, if it has no pods",
            ),
        )
    else:
        yield from _selector(name, row, manifest, its.pods, templates)
    yield from _ports(name, row, manifest, spec, templates)
    yield from _other_ways(row, manifest, spec, templates, own=True)


def _not_used(its: Selected) -> TemplateFinding:
    if its.unusable:
        return _finding(
            "ADM965",
            True,
            "admc does not use its selector",
            ("spec", "selector"),
            f"{its.unusable}; a server in a cluster takes the Service for absent",
            SHORTER,
        )
    return _finding(
        "ADM967",
        False,
        f"the annotation `{POD_LABELS}` is not used",
        ("metadata", "annotations"),
        f"{its.fault}; {ITS_SELECTOR_ALONE}",
        PART_OF_IT,
    )


def _selector(
    name: str, row: ServiceRow, manifest: Object, selector: Mapping[str, Any], templates: Sequence[_Template]
) -> Iterator[ManifestFinding]:
    """Check that the pods that the Service selects have the labels of the program."""
    if row.labels.items() <= selector.items():
        return
    if templates and all(row.labels.items() <= template.labels.items() for template in templates):
        return
    expected = ", ".join(f"`{key}: {value}`" for key, value in list(row.labels.items())[:_SHOWN])
    has = "  ".join(label_text(key, str(value)) for key, value in list(selector.items())[:_SHOWN])
    cause = f"in the program its pods have {expected}"
    if row.selected:
        cause += f", by which the NetworkPolicies that close {listed(row.selected)} select them: these select no pod"
    yield (
        manifest,
        _finding(
            "ADM941",
            bool(row.selected),
            f"the selector is not what the program says of `{name}`",
            ("spec", "selector"),
            cause,
            f"give the pods the labels of the program, too; or write those of the pods there: `labels {{ {has} }}`",
        ),
    )


def _carries_labels_of_another(
    rows: Mapping[str, ServiceRow], services: Services, template: _Template
) -> Iterator[ManifestFinding]:
    for name in services.by_labels(template.object.namespace, template.labels):
        row = rows[name]
        if name != template.service and row.selected:
            yield (
                template.object,
                _finding(
                    "ADM941",
                    True,
                    f"its pods have the labels of `{name}` in the program, and are not of that service",
                    ("metadata", "labels"),
                    f"the NetworkPolicies that close {listed(row.selected)} take them for pods of `{name}`",
                    f"give these pods other labels, or `{name}` a label of its own, in the program as in its pods",
                ),
            )


def _ports(
    name: str, row: ServiceRow, manifest: Object, spec: Mapping[str, Any], templates: Sequence[_Template]
) -> Iterator[ManifestFinding]:
    given = list(_tcp_ports(spec))
    if not given and spec.get("clusterIP") == "None":
        return  # callers dial the ports of the pods
    by_number = {port["port"]: (where, port) for where, port in given}
    for port in row.ports:
        relying = tuple(sorted({*port.ingress, *port.egress}))
        rests = f"; {listed(relying)} would be enforced on no connection to it" if relying else ""
        hint = (
            "correct the port in the program, as in `http 80 -> 8080`, and compile again; or correct it in the Service"
        )
        if port.number not in by_number:
            has = ", ".join(str(number) for number in sorted(by_number)[:_SHOWN]) or "none"
            yield (
                manifest,
                _finding(
                    "ADM943",
                    bool(relying),
                    f"it has no TCP port {port.number}, which the program gives `{name}`",
                    ("spec", "ports"),
                    f"it has {has}{rests}",
                    hint,
                ),
            )
            continue
        where, written = by_number[port.number]
        place = ("spec", *where, "targetPort" if "targetPort" in written else "port")
        for target, whose in _targets(written, templates):
            if target is None:
                yield manifest, _finding(
                    "ADM943", False, f"port {port.number} leads to a name that is not a port of {whose}", place, None,
                    f"the program says {port.target}: {hint}",
                )  # fmt: skip
            elif target != port.target:
                yield (
                    manifest,
                    _finding(
                        "ADM943",
                        bool(relying),
                        f"port {port.number} leads to {target}{whose}, and to {port.target} in the program",
                        place,
                        f"an ADM takes the connections to port {port.target} of the pods{rests}",
                        hint,
                    ),
                )


def _targets(port: Mapping[str, Any], templates: Sequence[_Template]) -> Iterator[tuple[int | None, str]]:
    """Yield the ports of the pods to which a port of a Service leads. A port that is found by its name comes with a
    text about the template that has it; None stands for a name that no container has."""
    target = port.get("targetPort")
    if target is None or target == "":
        yield port["port"], ""
    elif isinstance(target, int):
        yield target, ""
    elif str(target).isdecimal():
        yield int(str(target)[:6]), ""
    elif not templates:
        yield None, "any pod in these manifests"
    else:
        owners = {_named_port(template.template, str(target)): template.object for template in templates}
        for number, whose in owners.items():
            of = f"{whose.kind} `{whose.name}`"
            yield number, of if number is None else f" (`{target}` of {of})"


def _named_port(template: Mapping[str, Any], name: str) -> int | None:
    numbers = (
        port.get("containerPort")
        for _, port in _container_ports(template)
        if port.get("name") == name and port.get("protocol", "TCP") == "TCP"
    )
    return next((number for number in numbers if isinstance(number, int)), None)


def _container_ports(template: Mapping[str, Any]) -> Iterator[tuple[Where, Mapping[str, Any]]]:
    """Yield the ports of all containers, each with its place in the template."""
    for part in ("containers", "initContainers"):
        containers = at(template, ("spec", part))
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            ports = container.get("ports") if isinstance(container, dict) else None
            for position, port in enumerate(ports if isinstance(ports, list) else ()):
                if isinstance(port, dict):
                    yield ("spec", part, index, "ports", position), port


def _tcp_ports(spec: Mapping[str, Any]) -> Iterator[tuple[Where, Mapping[str, Any]]]:
    ports = spec.get("ports")
    for index, port in enumerate(ports if isinstance(ports, list) else ()):
        if isinstance(port, dict) and isinstance(port.get("port"), int) and port.get("protocol", "TCP") == "TCP":
            yield ("ports", index), port


def _other(
    rows: Mapping[str, ServiceRow], manifest: Object, services: Services, of_service: Mapping[str, Sequence[_Template]]
) -> Iterator[ManifestFinding]:
    """Check a Service that is of no service of the program, and leads to pods of one."""
    for name in services.selected_by(manifest):
        spec = manifest.data["spec"]
        yield from _other_ways(rows[name], manifest, spec, of_service.get(name, ()), own=False)


def _other_ways(
    row: ServiceRow, manifest: Object, spec: Mapping[str, Any], templates: Sequence[_Template], *, own: bool
) -> Iterator[ManifestFinding]:
    """Yield other ports that lead to the ports of the program in the pods: the ADM of a sender does not know them."""
    at_senders = {port.target: port for port in row.ports if port.egress}
    if not at_senders:
        return
    numbers = {port.number for port in row.ports} if own else set()
    headless = spec.get("clusterIP") == "None"
    for where, port in _tcp_ports(spec):
        for target, _ in _targets(port, templates):
            if target not in at_senders or (headless and port["port"] == target):
                continue
            if port["port"] not in numbers:
                what = f"port {port['port']}"
            elif spec.get("type") in ("NodePort", "LoadBalancer"):
                what = f"`type: {spec['type']}`"
            elif spec.get("externalIPs"):
                what = "`externalIPs`"
            else:
                continue
            yield manifest, _another_way(what, at_senders[target], ("spec", *where, "port"))
            break


def _host_ports(row: ServiceRow, template: _Template) -> Iterator[ManifestFinding]:
    at_senders = {port.target: port for port in row.ports if port.egress}
    for where, port in _container_ports(template.template):
        if port.get("hostPort") and port.get("containerPort") in at_senders:
            reached = at_senders[port["containerPort"]]
            yield template.object, _another_way(f"`hostPort` {port['hostPort']}", reached, (*where, "hostPort"))


def _another_way(what: str, port: PortRow, where: Where) -> TemplateFinding:
    return _finding(
        "ADM948",
        False,
        f"{what} is another way to port {port.target} of its pods",
        where,
        f"the ADMs of the callers enforce {listed(port.egress)}, and do not know a call that takes this way",
        "leave this way out; or keep policies of kinds that work at ingress there: `pin POLICY at ingress`",
    )


def _policies(row: ServiceRow) -> tuple[str, ...]:
    return tuple(sorted({name for port in row.ports for name in (*port.ingress, *port.egress)}))


def _finding(code: str, error: bool, message: str, where: Where, cause: str | None, hint: str) -> TemplateFinding:
    return TemplateFinding(code, Severity.ERROR if error else Severity.WARNING, message, where, cause, hint)
