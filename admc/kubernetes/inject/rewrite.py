"""All manifests of one call: which templates get what, and the new texts. Pure; the command reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from admc.kubernetes.inject.agreement import disagreements
from admc.kubernetes.inject.containers import is_own
from admc.kubernetes.inject.manifests import DEFAULT_NAMESPACE, Object, at, diagnostic, objects, read, replaced
from admc.kubernetes.inject.model import NOTHING, Finding
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.patch import applied, patch
from admc.kubernetes.inject.reliance import reliance
from admc.kubernetes.inject.services import Services, is_service
from admc.kubernetes.inject.services import wanted as wanted_of
from admc.kubernetes.inject.template import injected
from admc.kubernetes.inject.unknown import refusal, unknown
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity

if TYPE_CHECKING:
    from admc.kubernetes.inject.model import Installation
    from admc.kubernetes.inject.patch import Edit
    from admc.serve.observe.injection import InjectionDocument

_PARTS = {RULES_CONTAINER: "redirection", ADM_CONTAINER: "an ADM", WAIT_CONTAINER: "a wait"}


class Outcome(NamedTuple):
    """What became of one template."""

    object: str
    """`Deployment shop/rate`."""
    service: str
    """Empty: it is of no service of the program."""
    parts: tuple[str, ...]
    """The names of the containers that it has now."""
    changed: bool
    skipped: bool = False
    """It is in an object of a kind that admc does not know."""


class Rewritten(NamedTuple):
    texts: tuple[str, ...]
    """One for each file; empty after an error."""
    outcomes: tuple[Outcome, ...]
    findings: tuple[Diagnostic, ...]

    @property
    def refused(self) -> bool:
        return any(item.severity is Severity.ERROR for item in self.findings)


class _Changed(NamedTuple):
    edits: tuple[Edit, ...]
    outcomes: list[Outcome]
    findings: list[Diagnostic]


def rewritten(
    files: Sequence[tuple[str, bytes]],
    wanted: InjectionDocument,
    installation: Installation,
    *,
    namespace: str | None = None,
    skips_unknown: bool = False,
) -> Rewritten:
    """The manifests with what the pods of each service are to have. Raises `CommandError` for a text that cannot be
    read.

    `namespace`: of objects that name none, and as for `kubectl` the only one. `skips_unknown`: pod templates in objects
    of unknown kinds stay as they are.
    """
    found = [list(objects(read(path, content), namespace or DEFAULT_NAMESPACE)) for path, content in files]
    everything = [each for some in found for each in some]
    services = Services(wanted.services, everything)
    texts: list[str] = []
    outcomes: list[Outcome] = []
    findings = Diagnostics()
    for each, finding in disagreements(wanted, services, everything):
        findings.add(diagnostic(finding, each))
    for each in everything:
        if namespace is not None and each.own_namespace is not None and each.namespace != namespace:
            findings.add(diagnostic(_of_another_namespace(each, namespace), each, in_template=False))
        elsewhere = services.named_elsewhere(each) if namespace is None and each.own_namespace is None else None
        if elsewhere is not None:
            findings.add(diagnostic(_of_no_namespace(each, *elsewhere), each, in_template=False))
    for (_, content), inside in zip(files, found, strict=True):
        edits: list[Edit] = []
        for _, own in groupby(inside, key=lambda each: id(each.document)):
            changed = _document(
                list(own), wanted, installation, services, is_placed=namespace is not None, skips_unknown=skips_unknown
            )
            outcomes += changed.outcomes
            for item in changed.findings:
                findings.add(item)
            edits += changed.edits
        texts.append(applied(content.decode(), edits))
    result = Rewritten(tuple(texts), tuple(outcomes), tuple(findings.items))
    return result._replace(texts=()) if result.refused else result


def _document(
    inside: Sequence[Object],
    wanted: InjectionDocument,
    installation: Installation,
    services: Services,
    *,
    is_placed: bool,
    skips_unknown: bool,
) -> _Changed:
    """Of one document, with all of its objects. `is_placed`: the namespace of objects that name none is given."""
    document = inside[0].document
    data = document.data
    outcomes: list[Outcome] = []
    findings: list[Diagnostic] = []
    for found in inside:
        if found.template is None:
            if (pods := unknown(found)) is not None:
                service = services.of(found.namespace, pods.labels)
                service = service if isinstance(service, str) else None
                if skips_unknown:
                    outcomes.append(Outcome(_named(found), service or "", (), changed=False, skipped=True))
                else:
                    findings.append(diagnostic(refusal(found, pods, service), found))
            continue
        template = at(found.data, found.template)
        labels = at(template, ("metadata", "labels"))
        service = services.of(found.namespace, labels if isinstance(labels, dict) else {})
        if isinstance(service, Finding):
            findings.append(diagnostic(service, found))
            continue
        if service is None and not is_placed and found.own_namespace is None:
            elsewhere = services.elsewhere(labels if isinstance(labels, dict) else {})
            if elsewhere is not None:
                findings.append(diagnostic(_of_no_namespace(found, *elsewhere), found, in_template=False))
                continue
        has = NOTHING if service is None else wanted_of(wanted, service)
        if service is None and not _has_own(template):
            outcomes.append(Outcome(_named(found), "", (), changed=False))
            continue
        made = injected(template if isinstance(template, dict) else {}, has, installation)
        findings += [diagnostic(finding, found) for finding in made.findings]
        if made.template is None:
            continue
        if service is not None:
            findings += [diagnostic(each, found) for each in reliance(made.template, wanted.services[service])]
        changed = made.template != template
        if changed:
            data = replaced(data, (*found.where, *found.template), made.template)
        outcomes.append(Outcome(_named(found), service or "", _parts(made.template), changed))
    made_patch = patch(document, data)
    if made_patch.loses_comments:
        findings.append(_comments_lost(inside[0]))
    return _Changed(made_patch.edits, outcomes, findings)


def _named(found: Object) -> str:
    return f"{found.kind} {found.namespace}/{found.name}"


def _has_own(template: object) -> bool:
    listed = at(template, ("spec", "initContainers"))
    return isinstance(listed, list) and any(isinstance(it, dict) and is_own(it) for it in listed)


def _parts(template: object) -> tuple[str, ...]:
    listed = at(template, ("spec", "initContainers")) or ()
    own = {it["name"] for it in listed if is_own(it)}
    return tuple(name for name in _PARTS if name in own)


def _of_another_namespace(found: Object, namespace: str) -> Finding:
    return Finding(
        "ADM949",
        Severity.ERROR,
        f"it is in another namespace than `-n {namespace}` says",
        ("metadata", "namespace"),
        "`kubectl apply -n` refuses such an object, too",
        "leave `-n` out, or take the object out of these manifests",
    )


def _of_no_namespace(found: Object, service: str, namespace: str) -> Finding:
    would = "it would be the Service" if is_service(found) else "its pods would be those"
    return Finding(
        "ADM949",
        Severity.ERROR,
        f"it names no namespace, and in `{namespace}` {would} of `{service}`",
        ("metadata",),
        "`kubectl` puts it into the namespace of its context, which admc does not know",
        f"give `-n {namespace}`, to `kubectl apply`, too; or `-n {found.namespace}`, if it is of no service",
    )


def _comments_lost(found: Object) -> Diagnostic:
    lost = Finding(
        "ADM928",
        Severity.WARNING,
        "a part of the document was written anew, and has lost its comments",
        (),
        "it uses anchors, or a style that admc does not edit in place",
    )
    return diagnostic(lost, found)


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """One line for each template."""
    return [_line(outcome) for outcome in outcomes]


def _line(outcome: Outcome) -> str:
    if outcome.skipped:
        of = f", and its pods are those of service `{outcome.service}`" if outcome.service else ""
        return f"{outcome.object}: skipped: admc does not know this kind{of}"
    parts = ", ".join(_PARTS[name] for name in outcome.parts)
    if not outcome.service:
        why = "its pods are of no service of the program"
        return f"{outcome.object}: {'what admc wrote is gone' if outcome.changed else 'left alone'}: {why}"
    what = f"service `{outcome.service}`: {parts or 'needs no ADM and no wait'}"
    return f"{outcome.object}: {what}{'' if outcome.changed else ' (unchanged)'}"
