"""Injects into all manifests of one call, and returns their new texts. Pure; the command reads and writes files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from admc.kubernetes.inject.agreement import disagreements
from admc.kubernetes.inject.containers import is_own
from admc.kubernetes.inject.findings import diagnostic
from admc.kubernetes.inject.model import NOTHING, TemplateFinding
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.overrides import OPTS_OUT
from admc.kubernetes.inject.patch import applied, patch
from admc.kubernetes.inject.reliance import reliance
from admc.kubernetes.inject.services import is_service, needs_of, service_of
from admc.kubernetes.inject.template import has_own, injected
from admc.kubernetes.inject.unknown import refusal, unknown
from admc.manifests.documents import DEFAULT_NAMESPACE, Object, at, objects, replaced
from admc.manifests.read import read
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.inject.model import Installation
    from admc.kubernetes.inject.patch import Edit
    from admc.kubernetes.inject.services import Services
    from admc.kubernetes.inject.spec import InjectionSpec

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
    opts_out: bool = False
    """Whether its annotation keeps out what its service needs."""


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


class Manifests(NamedTuple):
    """The manifests of one call."""

    files: tuple[tuple[str, bytes], ...]
    """Path and content of each."""
    per_file: tuple[tuple[Object, ...], ...]
    namespace: str | None
    """The namespace of objects that name none, where it was given."""

    @property
    def objects(self) -> tuple[Object, ...]:
        return tuple(manifest for some in self.per_file for manifest in some)

    def namespaces(self, *, skips_unknown: bool) -> tuple[str, ...]:
        """The namespaces with a pod template, sorted."""
        namespaces = (
            manifest.namespace
            for manifest in self.objects
            if manifest.template is not None or (not skips_unknown and unknown(manifest) is not None)
        )
        return tuple(sorted(set(namespaces)))


def manifests_of(files: Sequence[tuple[str, bytes]], namespace: str | None = None) -> Manifests:
    """Read the manifests. Raises `CommandError` for a text that cannot be read."""
    per_file = (
        tuple(it for document in read(path, content) for it in objects(document, namespace or DEFAULT_NAMESPACE))
        for path, content in files
    )
    return Manifests(tuple(files), tuple(per_file), namespace)


def rewritten(
    manifests: Manifests,
    injections: Mapping[str, InjectionSpec],
    installation: Installation,
    planned: Services | None = None,
    *,
    skips_unknown: bool = False,
) -> Rewritten:
    """Return the manifests in which the pods of each service have what they need. With an error among the findings
    there are no texts.

    `injections` has a spec for each namespace with such services, with the address of the server. `planned` has the
    plan that they were made from, with which the manifests are compared; in a cluster the server compares. An object of
    another namespace than the given one is refused, as by `kubectl`. With `skips_unknown`, pod templates in objects of
    unknown kinds stay as they are.
    """
    texts: list[str] = []
    outcomes: list[TemplateOutcome] = []
    findings = Diagnostics()
    for item in _beside_templates(manifests, planned):
        findings.add(item)
    call = _Call(injections, installation, planned, manifests.namespace is not None, skips_unknown)
    for (_, content), inside in zip(manifests.files, manifests.per_file, strict=True):
        edits: list[Edit] = []
        for _, own in groupby(inside, key=lambda manifest: id(manifest.document)):
            changed = _document(list(own), call)
            outcomes += changed.outcomes
            for item in changed.findings:
                findings.add(item)
            edits += changed.edits
        texts.append(applied(content.decode(), edits))
    result = Rewritten(tuple(texts), tuple(outcomes), tuple(findings.items))
    return result._replace(texts=()) if result.refused else result


def _beside_templates(manifests: Manifests, planned: Services | None) -> Iterator[Diagnostic]:
    """Yield the findings about objects and their namespaces."""
    namespace = manifests.namespace
    for manifest, finding in () if planned is None else disagreements(planned, manifests.objects):
        yield diagnostic(finding, manifest)
    for manifest in manifests.objects:
        if namespace is not None and manifest.own_namespace is not None and manifest.namespace != namespace:
            yield diagnostic(_of_another_namespace(manifest, namespace), manifest, in_template=False)
        if planned is not None and namespace is None and manifest.own_namespace is None:
            elsewhere = planned.named_elsewhere(manifest)
            if elsewhere is not None:
                yield diagnostic(_of_no_namespace(manifest, *elsewhere), manifest, in_template=False)


class _Call(NamedTuple):
    """What is the same for all documents."""

    injections: Mapping[str, InjectionSpec]
    installation: Installation
    planned: Services | None
    is_placed: bool
    """Whether the namespace of objects that name none is given."""
    skips_unknown: bool


def _document(inside: Sequence[Object], call: _Call) -> _Changed:
    """Change one document, with all of its objects."""
    document = inside[0].document
    data = document.data
    outcomes: list[TemplateOutcome] = []
    findings: list[Diagnostic] = []
    for manifest in inside:
        spec = call.injections.get(manifest.namespace)
        if manifest.template is None:
            if (pods := unknown(manifest)) is not None:
                service = service_of(spec, pods.labels)
                service = service if isinstance(service, str) else None
                if call.skips_unknown:
                    outcomes.append(TemplateOutcome(_named(manifest), service or "", (), changed=False, skipped=True))
                else:
                    findings.append(diagnostic(refusal(manifest, pods, service), manifest))
            continue
        template = at(manifest.data, manifest.template)
        labels = at(template, ("metadata", "labels"))
        labels = labels if isinstance(labels, dict) else {}
        service = service_of(spec, labels)
        if isinstance(service, TemplateFinding):
            findings.append(diagnostic(service, manifest))
            continue
        if service is None and call.planned is not None and not call.is_placed and manifest.own_namespace is None:
            elsewhere = call.planned.elsewhere(labels)
            if elsewhere is not None:
                findings.append(diagnostic(_of_no_namespace(manifest, *elsewhere), manifest, in_template=False))
                continue
        if spec is None or service is None:
            needs, installation = NOTHING, call.installation
        else:
            needs, installation = needs_of(spec, service), call.installation._replace(server=spec.server)
        if service is None and not has_own(template):
            outcomes.append(TemplateOutcome(_named(manifest), "", (), changed=False))
            continue
        made = injected(template if isinstance(template, dict) else {}, needs, installation)
        findings += [diagnostic(finding, manifest) for finding in made.findings]
        if made.template is None:
            continue
        if service is not None and call.planned is not None:
            row = call.planned.plan.services[service]
            findings += [diagnostic(finding, manifest) for finding in reliance(made.template, row)]
        changed = made.template != template
        if changed:
            data = replaced(data, (*manifest.where, *manifest.template), made.template)
        opts_out = any(finding.code == OPTS_OUT for finding in made.findings)
        parts = _parts(made.template)
        outcomes.append(TemplateOutcome(_named(manifest), service or "", parts, changed, opts_out=opts_out))
    made_patch = patch(document, data)
    if made_patch.loses_comments:
        findings.append(_comments_lost(inside[0]))
    return _Changed(made_patch.edits, outcomes, findings)


def _named(manifest: Object) -> str:
    return f"{manifest.kind} {manifest.namespace}/{manifest.name}"


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
        why = "its pods are of no service that needs something"
        return f"{outcome.object}: {'what admc wrote is gone' if outcome.changed else 'left alone'}: {why}"
    none = "gets nothing, as its annotation says" if outcome.opts_out else "needs no ADM and no wait"
    what = f"service `{outcome.service}`: {parts or none}"
    return f"{outcome.object}: {what}{'' if outcome.changed else ' (unchanged)'}"
