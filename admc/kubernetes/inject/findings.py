"""The diagnostic of a finding about a template, with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.manifests.places import span_of
from dsl.diagnostics.diagnostic import Diagnostic

if TYPE_CHECKING:
    from admc.kubernetes.inject.model import TemplateFinding
    from admc.manifests.documents import Object


def diagnostic(finding: TemplateFinding, manifest: Object, *, in_template: bool = True) -> Diagnostic:
    """Return the diagnostic of a finding about the template of an object, or about the object."""
    name = f"{manifest.kind} `{manifest.namespace}/{manifest.name}`"
    where = (*manifest.where, *(manifest.template or () if in_template else ()), *finding.where)
    span = span_of(manifest.document, where)
    return Diagnostic(finding.code, finding.severity, f"{name}: {finding.message}", span, finding.cause, finding.hint)
