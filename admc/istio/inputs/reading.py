"""Reads objects from texts, and compares each with the schema of its kind.

    sources --read--> Inputs

An object that is refused is not among the objects; its finding says so. Objects that are equal count once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.base.terminal import quoted
from admc.istio.inputs.known_kinds import NO_OBJECT, finding_of_kind, is_cluster_scoped, is_no_object
from admc.istio.inputs.rendered import CHART, HELM, TEMPLATE, YTT, Unrendered, place_of_ytt, unrendered
from admc.istio.schemas.checks import violations, without_nulls
from admc.istio.schemas.data import kinds
from admc.istio.schemas.lists import repeated
from admc.istio.schemas.rules import Effort, broken_rules, with_defaults
from admc.istio.schemas.used_fields import NAMED, fields_of, kept, kept_with_texts
from admc.istio.schemas.violation import Violation
from admc.manifests.documents import DEFAULT_NAMESPACE, Document, Object, objects, shown_source
from admc.manifests.places import span_of
from admc.manifests.read import documents_of
from admc.manifests.slices import Slice
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Related, Severity
from dsl.text import Span

if TYPE_CHECKING:
    from admc.manifests.documents import Where
    from admc.manifests.yaml_values import Keep
    from dsl.text import SourceText

Name = tuple[str, str, str, str]
"""Group, kind, namespace and name of an object."""
_SECRET: Final = ("", "Secret")
_OF_MANIFESTS: Final = re.compile(r"""(?:^|[\s{,"'])(?:apiVersion|kind)["']?[ \t]*:""")
"""A key that manifests have."""


class Source(NamedTuple):
    text: SourceText
    is_named: bool = True
    """False for a file that was found in a folder, which may be something else than manifests."""
    chart: str | None = None
    """The folder of the Helm chart that the file is in."""


class Reading(NamedTuple):
    raw: bool = False
    """Whether templates are read as they are."""
    texts: bool = False
    """Whether the texts of ConfigMaps are kept, and what refers to them."""


READING: Final = Reading()


@dataclass(frozen=True)
class Inputs:
    objects: tuple[Object, ...]
    skipped: int
    """Documents and objects that were refused."""


def read_objects(
    sources: Iterable[Source], findings: Diagnostics, namespace: str = DEFAULT_NAMESPACE, reading: Reading = READING
) -> Inputs:
    """Read the objects of all texts. What is wrong is among the findings."""
    made: dict[Name, Object] = {}
    unnamed: list[Object] = []
    skipped = 0
    effort = Effort()
    for source in sources:
        for manifest in _objects(source, findings, namespace, effort, reading):
            if manifest is None:
                skipped += 1
            elif not manifest.metadata.get("name"):
                unnamed.append(manifest)
            elif (earlier := made.setdefault(name_of(manifest), manifest)) is not manifest and _differs(
                earlier, manifest
            ):
                findings.add(_twice(earlier, manifest))
                skipped += 1
    return Inputs((*made.values(), *unnamed), skipped)


def name_of(manifest: Object) -> Name:
    group, kind = manifest.group, manifest.kind
    return group, kind, "" if is_cluster_scoped(group, kind) else manifest.namespace, manifest.name


def diagnostic(
    manifest: Object,
    violation: Violation,
    severity: Severity = Severity.ERROR,
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    """A finding about an object, with its line."""
    code, where, message, cause, hint = violation
    span = span_of(manifest.document, (*manifest.where, *where))
    subject = f"{named(manifest)}: " if manifest.kind else ""
    return Diagnostic(code, severity, f"{subject}{message}", span, cause, hint, related)


def named(manifest: Object) -> str:
    place = manifest.name if is_cluster_scoped(manifest.group, manifest.kind) else _in_namespace(manifest)
    return f"{manifest.kind} `{place[:300]}`" if manifest.name else manifest.kind or "a document"


def _in_namespace(manifest: Object) -> str:
    return f"{manifest.namespace}/{manifest.name}"


def _objects(
    given: Source, findings: Diagnostics, namespace: str, effort: Effort, reading: Reading
) -> Iterator[Object | None]:
    """Yield the objects of a text, and None for each that is refused."""
    source, raw = given.text, reading.raw
    keep = kept_with_texts if reading.texts else kept
    for document in documents_of(source, keep=keep):
        if isinstance(document, Diagnostic):
            finding = _broken(document, given)
            findings.add(finding)
            if finding.severity is Severity.ERROR:
                yield None
            continue
        ytt = None if raw else place_of_ytt(source.text, document.start, document.end)
        if ytt is not None:
            span = Span(shown_source(source, Slice(document.start, document.end)), ytt, ytt + 2)
            findings.add(_unrendered(f"`{source.path}` has {YTT.what}", span, YTT, given))
            yield None
            continue
        for manifest in _of_document(document, namespace, keep):
            if not given.is_named and is_no_object(manifest.data):
                findings.add(diagnostic(manifest, NO_OBJECT, Severity.WARNING))
            else:
                yield None if _is_refused(manifest, given, findings, effort, raw=raw) else manifest


def _of_document(document: Document, namespace: str, keep: Keep) -> Iterator[Object]:
    """Yield its objects, without the values that are not used: the document itself keeps none."""
    if document.data is None:
        return
    if not isinstance(document.data, dict):
        yield Object(replace(document, data=None), (), {}, namespace)
        return
    bare = replace(document, data=None)
    for manifest in objects(document, namespace):
        if (manifest.group, manifest.kind) != _SECRET:
            # Of a list's objects this drops no more, unless they have their kind from the list.
            yield replace(manifest, document=bare, data=keep(manifest.data))


def _is_refused(manifest: Object, given: Source, findings: Diagnostics, effort: Effort, *, raw: bool) -> bool:
    """Whether an object is refused. Why is among the findings."""
    template = None if raw else unrendered(manifest.data)
    if template is not None:
        where, what = template
        span = span_of(manifest.document, (*manifest.where, *where))
        findings.add(_unrendered(f"{named(manifest)} has {what.what}", span, what, given))
        return True
    of_kind = finding_of_kind(manifest.data)
    if of_kind is not None:
        findings.add(diagnostic(manifest, of_kind[0], of_kind[1]))
        return of_kind[1] is Severity.ERROR
    problems = list(problems_of(manifest.data, effort))
    for violation in problems:
        findings.add(diagnostic(manifest, violation))
    return bool(problems)


def problems_of(data: dict[str, Any], effort: Effort) -> Iterator[Violation]:
    """What is wrong with an object of a known kind, by the schema and the rules of its API."""
    yield from violations({"metadata": data.get("metadata")}, NAMED, "ADM918")
    group, _, version = str(data.get("apiVersion", "")).rpartition("/")
    kind = kinds().get((group, str(data.get("kind", ""))))
    if kind is None:
        yield from violations(data, fields_of(group, str(data.get("kind", ""))), "ADM918")
        return
    schema = kind.schemas[version]
    # Defaults come before the schema, as in an API server: alternatives count on them.
    whole = with_defaults(without_nulls(data, schema), schema)
    of_schema = violations(whole, schema, "ADM912")
    yield from of_schema
    if not of_schema:
        yield from repeated(whole, schema)
        yield from broken_rules(whole, schema, effort)


def _differs(one: Object, other: Object) -> bool:
    def compared(data: dict[str, Any]) -> dict[str, Any]:
        metadata = data.get("metadata") or {}
        own = {key: metadata.get(key) for key in ("labels", "annotations")}
        return {**{key: value for key, value in data.items() if key not in ("apiVersion", "metadata", "status")}, **own}

    return compared(one.data) != compared(other.data)


def _twice(earlier: Object, later: Object) -> Diagnostic:
    cause = "one of them replaces the other, depending on the order in which they are applied"
    hint = "read one environment at a time: two overlays of one application are two meshes"
    where: Where = ("metadata", "name")
    related = (Related(span_of(earlier.document, (*earlier.where, *where)), "the other one, which is read"),)
    message = "it is there twice, with different contents"
    return diagnostic(later, Violation("ADM914", where, message, cause, hint), related=related)


def _broken(broken: Diagnostic, given: Source) -> Diagnostic:
    """The finding about a document that cannot be read. It may be a template, which is another matter."""
    if broken.span is None:
        return broken
    text = given.text.text
    begin = text.rfind("\n---", 0, broken.span.start) + 1
    end = text.find("\n---", broken.span.start)
    place = text.find(TEMPLATE, begin, end if end >= 0 else len(text))
    if place < 0:
        return broken if given.is_named or _OF_MANIFESTS.search(text) else _left_out(broken)
    span = Span(broken.span.source, place, place + 2)
    return _unrendered(f"`{given.text.path}` has {HELM.what}", span, HELM, given)


def _left_out(broken: Diagnostic) -> Diagnostic:
    """The finding about a file of a folder that cannot be read, and that no manifest was meant to be in."""
    hint = "give the folders of manifests alone, or leave it as it is: nothing of it counts"
    message = f"{broken.message}, and was left out: it has neither `apiVersion` nor `kind`"
    return replace(broken, severity=Severity.WARNING, message=message, hint=hint)


def _unrendered(message: str, span: Span, what: Unrendered, given: Source) -> Diagnostic:
    cause = "its values, and so the names and the fields of the objects, are not known"
    hint = what.hint if given.chart is None else what.hint.replace(CHART, quoted(given.chart))
    return Diagnostic("ADM910", Severity.ERROR, message, span, cause, hint)
