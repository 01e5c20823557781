"""The revisions of Istio in the objects, with their mesh configurations, and the tags that stand for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.istio.inputs.reading import diagnostic, named
from admc.istio.mesh.model import Place, Revision, spec_of
from admc.istio.mesh.presence import DEFAULT_REVISION, REVISION
from admc.istio.schemas.mesh_config import UNKNOWN, read_mesh_config, settings
from admc.istio.schemas.violation import Violation
from admc.manifests.documents import Document, Object, at
from admc.manifests.places import line_within, span_of
from admc.manifests.read import documents_of
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.manifests.documents import Where

TAG: Final = "istio.io/tag"
_NAMED: Final = "istio"
_OPERATORS: Final = frozenset((("install.istio.io", "IstioOperator"), ("sailoperator.io", "Istio")))
_WEBHOOKS: Final = ("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
_INJECTOR: Final = "sidecar-injector.istio.io"
_ALL: Final = "auto."
"""The beginning of the name of the webhook that selects pods without labels."""


def revisions_of(objects: Iterable[Object], findings: Diagnostics) -> dict[str, Revision]:
    """Each revision by its name. What is wrong with its mesh configuration is among the findings."""
    made: dict[str, Revision] = {}
    for manifest in objects:
        for revision in _revisions(manifest, findings):
            earlier = made.get(revision.name)
            made[revision.name] = revision if earlier is None else _both(earlier, revision)
    return made


def tags_of(objects: Iterable[Object]) -> dict[str, str]:
    """Tag -> revision, as webhooks and Sail's objects have it."""
    made: dict[str, str] = {}
    for manifest in objects:
        if (manifest.group, manifest.kind) == _WEBHOOKS:
            labels = _mapping(at(manifest.data, ("metadata", "labels")))
            if labels.get(TAG) and labels.get(REVISION):
                made[str(labels[TAG])] = str(labels[REVISION])
        elif (manifest.group, manifest.kind) == ("sailoperator.io", "IstioRevisionTag"):
            target = at(manifest.data, ("spec", "targetRef", "name"))
            if isinstance(target, str):
                made[manifest.name] = target
    return made


def _both(one: Revision, other: Revision) -> Revision:
    """Two objects about one revision: a configuration, and a webhook that has none."""
    first, second = (one, other) if one.source is not None else (other, one)
    return Revision(
        first.name,
        first.source,
        first.settings,
        first.injects_all or second.injects_all,
        first.injects_unasked and second.injects_unasked,
    )


def _revisions(manifest: Object, findings: Diagnostics) -> Iterator[Revision]:
    of = manifest.group, manifest.kind
    if of == ("", "ConfigMap"):
        name = manifest.name
        if isinstance(at(manifest.data, ("data", "mesh")), str) and (name == _NAMED or name.startswith(f"{_NAMED}-")):
            values = _of_text(manifest, ("data", "mesh"), findings)
            revision = name.removeprefix(_NAMED).removeprefix("-") or DEFAULT_REVISION
            yield Revision(revision, Place(manifest, ("data", "mesh")), settings(values))
    elif of in _OPERATORS:
        yield _of_operator(manifest, findings)
    elif of == _WEBHOOKS:
        labels = _mapping(at(manifest.data, ("metadata", "labels")))
        names = [str(at(webhook, ("name",))) for webhook in manifest.data.get("webhooks") or ()]
        if REVISION in labels and TAG not in labels and any(name.endswith(_INJECTOR) for name in names):
            injects_all = any(name.startswith(_ALL) for name in names)
            yield Revision(str(labels[REVISION]), None, settings({}), injects_all)


def _of_operator(manifest: Object, findings: Diagnostics) -> Revision:
    spec = spec_of(manifest)
    values = _mapping(spec.get("values"))
    configuration: dict[str, Any] = {}
    source = None
    for where in (("spec", "values", "meshConfig"), ("spec", "meshConfig")):
        data = at(manifest.data, where)
        if data is not None:
            configuration = _merged(configuration, _read(manifest, where, data, findings))
            source = Place(manifest, where)
    if any(at(values, ("sidecarInjectorWebhook", part)) for part in ("neverInjectSelector", "alwaysInjectSelector")):
        findings.add(_selectors(manifest))
    own = spec.get("revision") or values.get("revision")
    default = manifest.name if manifest.kind == "Istio" else DEFAULT_REVISION
    return Revision(
        str(own or default or DEFAULT_REVISION),
        source or Place(manifest, ("spec",)),
        settings(configuration),
        bool(at(values, ("sidecarInjectorWebhook", "enableNamespacesByDefault"))),
        at(values, ("global", "proxy", "autoInject")) != "disabled",
    )


def _selectors(manifest: Object) -> Diagnostic:
    where = ("spec", "values", "sidecarInjectorWebhook")
    message = "admc does not read the injector's own selectors (`neverInjectSelector`, `alwaysInjectSelector`)"
    hint = (
        "pods that they select may have a sidecar, or none, in spite of what is counted here; give the pods themselves"
    )
    return diagnostic(manifest, Violation("ADM982", where, message, None, hint), Severity.WARNING)


def _of_text(manifest: Object, where: Where, findings: Diagnostics) -> dict[str, Any]:
    """Read a mesh configuration that is a text in a ConfigMap. Its lines are those of the file, where found."""
    text = str(at(manifest.data, where))
    values: dict[str, Any] = {}
    for document in documents_of(SourceText("mesh", text)):
        if isinstance(document, Diagnostic):
            at_line = document.span.line if document.span is not None else 1
            message = f"{named(manifest)}: the mesh configuration cannot be read: {document.message}"
            place = _line_in(manifest, where, text, at_line)
            findings.add(Diagnostic("ADM916", Severity.ERROR, message, place, document.cause))
        elif document.data is not None:
            read, problems = read_mesh_config(document.data)
            values.update(read)
            for violation in problems:
                findings.add(_inner(manifest, where, text, document, violation))
    return values


def _inner(manifest: Object, where: Where, text: str, document: Document, violation: Violation) -> Diagnostic:
    line = span_of(document, violation.where).line
    severity = Severity.WARNING if violation.code == UNKNOWN else Severity.ERROR
    made = diagnostic(manifest, violation._replace(where=where), severity)
    place = _line_in(manifest, where, text, line)
    return Diagnostic(made.code, made.severity, made.message, place, made.cause, made.hint)


def _line_in(manifest: Object, where: Where, text: str, line: int) -> Span:
    """The line of a text in the file that it is in; that of its key if the text is not written as it is."""
    span = span_of(manifest.document, (*manifest.where, *where))
    return line_within(span, text.splitlines(), line)


def _read(manifest: Object, where: Where, data: Any, findings: Diagnostics) -> dict[str, Any]:
    values, problems = read_mesh_config(data)
    for violation in problems:
        severity = Severity.WARNING if violation.code == UNKNOWN else Severity.ERROR
        findings.add(diagnostic(manifest, violation._replace(where=(*where, *violation.where)), severity))
    return values


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Values with others over them, as Helm merges them."""
    made = dict(one)
    for key, value in other.items():
        inner = made.get(key)
        made[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return made


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
