"""Injects into all manifests of one call, and returns their new texts. Pure; the command reads and writes files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from admc.kubernetes.inject import probes
from admc.kubernetes.inject.agreement import disagreements
from admc.kubernetes.inject.containers import is_own
from admc.kubernetes.inject.manifests import DEFAULT_NAMESPACE, Object, at, diagnostic, objects, read, replaced
from admc.kubernetes.inject.model import NOTHING, TemplateFinding
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.patch import applied, patch
from admc.kubernetes.inject.refusals import CONTAINERS
from admc.kubernetes.inject.reliance import reliance
from admc.kubernetes.inject.services import Services, is_service, needs_of
from admc.kubernetes.inject.template import injected
from admc.kubernetes.inject.unknown import refusal, unknown
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity

if TYPE_CHECKING:
    from admc.kubernetes.inject.model import Installation
    from admc.kubernetes.inject.patch import Edit
    from admc.serve.observe.injection import InjectionDocument

_PARTS = {RULES_CONTAINER: "redirection", ADM_CONTAINER: "an ADM", WAIT_CONTAINER: "a wait"}


class TemplateOutcome(NamedTuple):
    """The outcome for one template."""

    object: str
    """`Deployment shop/rate`."""
    service: str
    """Empty if it belongs to no service of the program."""
    parts: tuple[str, ...]
    """The names of admc's containers in the new template."""
    changed: bool
    skipped: bool = False
    """Whether it is in an object of a kind that admc does not know."""


class Rewritten(NamedTuple):
    texts: tuple[str, ...]
    """One for each file; empty after an error."""
    outcomes: tuple[TemplateOutcome, ...]
    findings: tuple[Diagnostic, ...]

    @property
    def refused(self) -> bool:
        return any(item.severity is Severity.ERROR for item in self.findings)


class _Changed(NamedTuple):
    edits: tuple[Edit, ...]
    outcomes: list[TemplateOutcome]
    findings: list[Diagnostic]


def rewritten(
    files: Sequence[tuple[str, bytes]],
    injection: InjectionDocument,
    installation: Installation,
    *,
    namespace: str | None = None,
    skips_unknown: bool = False,
) -> Rewritten:
    """Return the manifests in which the pods of each service have what they need. With an error among the findings
    there are no texts. Raises `CommandError` for a text that cannot be read.

    `namespace` is that of objects which name none; an object that names another one is refused, as by `kubectl`. With
    `skips_unknown`, pod templates in objects of unknown kinds stay as they are.
    """
    per_file = [list(objects(read(path, content), namespace or DEFAULT_NAMESPACE)) for path, content in files]
    everything = [manifest for some in per_file for manifest in some]
    services = Services(injection.services, everything)
    texts: list[str] = []
    outcomes: list[TemplateOutcome] = []
    findings = Diagnostics()
    for manifest, finding in disagreements(injection, services, everything):
        findings.add(diagnostic(finding, manifest))
    for manifest in everything:
        if namespace is not None and manifest.own_namespace is not None and manifest.namespace != namespace:
            findings.add(diagnostic(_of_another_namespace(manifest, namespace), manifest, in_template=False))
        elsewhere = services.named_elsewhere(manifest) if namespace is None and manifest.own_namespace is None else None
        if elsewhere is not None:
            findings.add(diagnostic(_of_no_namespace(manifest, *elsewhere), manifest, in_template=False))
    for (_, content), inside in zip(files, per_file, strict=True):
        edits: list[Edit] = []
        for _, own in groupby(inside, key=lambda manifest: id(manifest.document)):
            changed = _document(
                list(own),
                injection,
                installation,
                services,
                is_placed=namespace is not None,
                skips_unknown=skips_unknown,
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
    injection: InjectionDocument,
    installation: Installation,
    services: Services,
    *,
    is_placed: bool,
    skips_unknown: bool,
) -> _Changed:
    """Change one document, with all of its objects. `is_placed`: the namespace of objects that name none is given."""
    document = inside[0].document
    data = document.data
    outcomes: list[TemplateOutcome] = []
    findings: list[Diagnostic] = []
    for manifest in inside:
        if manifest.template is None:
            if (pods := unknown(manifest)) is not None:
                service = services.of(manifest.namespace, pods.labels)
                service = service if isinstance(service, str) else None
                if skips_unknown:
                    outcomes.append(TemplateOutcome(_named(manifest), service or "", (), changed=False, skipped=True))
                else:
                    findings.append(diagnostic(refusal(manifest, pods, service), manifest))
            continue
        template = at(manifest.data, manifest.template)
        labels = at(template, ("metadata", "labels"))
        service = services.of(manifest.namespace, labels if isinstance(labels, dict) else {})
        if isinstance(service, TemplateFinding):
            findings.append(diagnostic(service, manifest))
            continue
        if service is None and not is_placed and manifest.own_namespace is None:
            elsewhere = services.elsewhere(labels if isinstance(labels, dict) else {})
            if elsewhere is not None:
                findings.append(diagnostic(_of_no_namespace(manifest, *elsewhere), manifest, in_template=False))
                continue
        needs = NOTHING if service is None else needs_of(injection, service)
        if service is None and not _has_own(template):
            outcomes.append(TemplateOutcome(_named(manifest), "", (), changed=False))
            continue
        made = injected(template if isinstance(template, dict) else {}, needs, installation)
        findings += [diagnostic(finding, manifest) for finding in made.findings]
        if made.template is None:
            continue
        if service is not None:
            findings += [
                diagnostic(finding, manifest) for finding in reliance(made.template, injection.services[service])
            ]
        changed = made.template != template
        if changed:
            data = replaced(data, (*manifest.where, *manifest.template), made.template)
        outcomes.append(TemplateOutcome(_named(manifest), service or "", _parts(made.template), changed))
    made_patch = patch(document, data)
    if made_patch.loses_comments:
        findings.append(_comments_lost(inside[0]))
    return _Changed(made_patch.edits, outcomes, findings)


def _named(manifest: Object) -> str:
    return f"{manifest.kind} {manifest.namespace}/{manifest.name}"


def _has_own(template: object) -> bool:
    listed = {part: at(template, ("spec", part)) for part in CONTAINERS}
    init, others = (
        [it for it in items if isinstance(it, dict)] if isinstance(items, list) else [] for items in listed.values()
    )
    return any(map(is_own, init)) or any(map(probes.paths, (*init, *others)))


def _parts(template: object) -> tuple[str, ...]:
    listed = at(template, ("spec", "initContainers")) or ()
    own = {it["name"] for it in listed if is_own(it)}
    return tuple(name for name in _PARTS if name in own)


def _of_another_namespace(manifest: Object, namespace: str) -> TemplateFinding:
    return TemplateFinding(
        "ADM949",
        Severity.ERROR,
        f"it is in another namespace than `-n {namespace}` says",
        ("metadata", "namespace"),
        "`kubectl apply -n` refuses such an object, too",
        "leave `-n` out, or take the object out of these manifests",
    )


def _of_no_namespace(manifest: Object, service: str, namespace: str) -> TemplateFinding:
    would = "it would be the Service" if is_service(manifest) else "its pods would be those"
    return TemplateFinding(
        "ADM949",
        Severity.ERROR,
        f"it names no namespace, and in `{namespace}` {would} of `{service}`",
        ("metadata",),
        "`kubectl` puts it into the namespace of its context, which admc does not know",
        f"give `-n {namespace}`, to `kubectl apply`, too; or `-n {manifest.namespace}`, if it is of no service",
    )


def _comments_lost(manifest: Object) -> Diagnostic:
    lost = TemplateFinding(
        "ADM928",
        Severity.WARNING,
        "a part of the document was written anew, and has lost its comments",
        (),
        "it uses anchors, or a style that admc does not edit in place",
    )
    return diagnostic(lost, manifest)


def summary(outcomes: Sequence[TemplateOutcome]) -> list[str]:
    """Return one line for each template."""
    return [_line(outcome) for outcome in outcomes]


def _line(outcome: TemplateOutcome) -> str:
    if outcome.skipped:
        of = f", and its pods are those of service `{outcome.service}`" if outcome.service else ""
        return f"{outcome.object}: skipped: admc does not know this kind{of}"
    parts = ", ".join(_PARTS[name] for name in outcome.parts)
    if not outcome.service:
        why = "its pods are of no service of the program"
        return f"{outcome.object}: {'what admc wrote is gone' if outcome.changed else 'left alone'}: {why}"
    what = f"service `{outcome.service}`: {parts or 'needs no ADM and no wait'}"
    return f"{outcome.object}: {what}{'' if outcome.changed else ' (unchanged)'}"
