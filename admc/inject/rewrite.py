"""All manifests of one call: which templates get what, and the new texts. Pure; the command reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from admc.inject.containers import is_own
from admc.inject.manifests import Object, at, diagnostic, objects, read, replaced
from admc.inject.model import NOTHING, Finding
from admc.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.inject.patch import applied, patch
from admc.inject.services import Services
from admc.inject.services import wanted as wanted_of
from admc.inject.template import injected
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity

if TYPE_CHECKING:
    from admc.inject.model import Installation
    from admc.inject.patch import Edit
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


def rewritten(files: Sequence[tuple[str, bytes]], wanted: InjectionDocument, installation: Installation) -> Rewritten:
    """The manifests with what the pods of each service are to have. Raises `CommandError` for a text that cannot be
    read."""
    found = [list(objects(read(path, content))) for path, content in files]
    services = Services(wanted.services, (each for some in found for each in some))
    texts: list[str] = []
    outcomes: list[Outcome] = []
    findings = Diagnostics()
    for (_, content), inside in zip(files, found, strict=True):
        edits: list[Edit] = []
        for _, own in groupby(inside, key=lambda each: id(each.document)):
            changed = _document(list(own), wanted, installation, services)
            outcomes += changed.outcomes
            for finding in changed.findings:
                findings.add(finding)
            edits += changed.edits
        texts.append(applied(content.decode(), edits))
    result = Rewritten(tuple(texts), tuple(outcomes), tuple(findings.items))
    return result._replace(texts=()) if result.refused else result


def _document(
    inside: Sequence[Object], wanted: InjectionDocument, installation: Installation, services: Services
) -> _Changed:
    """Of one document, with all of its objects."""
    document = inside[0].document
    data, outcomes, findings = document.data, [], []
    for found in inside:
        if found.template is None:
            continue
        template = at(found.data, found.template)
        labels = at(template, ("metadata", "labels"))
        service = services.of(found.namespace, labels if isinstance(labels, dict) else {})
        if isinstance(service, Finding):
            findings.append(diagnostic(service, found))
            continue
        has = NOTHING if service is None else wanted_of(wanted, service)
        if service is None and not _has_own(template):
            outcomes.append(Outcome(_named(found), "", (), changed=False))
            continue
        made = injected(template if isinstance(template, dict) else {}, has, installation)
        findings += [diagnostic(finding, found) for finding in made.findings]
        if made.template is None:
            continue
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
    parts = ", ".join(_PARTS[name] for name in outcome.parts)
    if not outcome.service:
        why = "its pods are of no service of the program"
        return f"{outcome.object}: {'what admc wrote is gone' if outcome.changed else 'left alone'}: {why}"
    what = f"service `{outcome.service}`: {parts or 'needs no ADM and no wait'}"
    return f"{outcome.object}: {what}{'' if outcome.changed else ' (unchanged)'}"
