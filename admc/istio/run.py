"""The run of `admc advise`: from texts to advice and findings. It reads no file, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from admc.base.exits import Exit
from admc.istio.advice import Advice, advise
from admc.istio.inputs.reading import read_objects
from admc.istio.mesh.build import build, is_declared
from admc.istio.mesh.references import reference_findings
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity, did_you_mean

if TYPE_CHECKING:
    from admc.istio.inputs.reading import Source
    from admc.manifests.documents import Object


class Options(NamedTuple):
    namespace: str
    """That of objects that name none."""
    injected: frozenset[str] | None = frozenset()
    """The namespaces of `--injected`; None for all."""
    keep_going: bool = False
    raw: bool = False


class Outcome(NamedTuple):
    advice: Advice | None
    """None where there are errors, without `--keep-going`; or where it is declared nowhere which pods have a
    sidecar."""
    findings: tuple[Diagnostic, ...]
    exit_code: Exit


def run(sources: Iterable[Source], options: Options, findings: Diagnostics) -> Outcome:
    """`findings` has those about paths already."""
    inputs = read_objects(sources, findings, options.namespace, raw=options.raw)
    if findings.has_errors and not options.keep_going:
        return Outcome(None, tuple(findings.items), Exit.INPUT)
    for finding in _absent_namespaces(inputs.objects, options.injected):
        findings.add(finding)
    mesh = build(inputs.objects, findings, options.injected)
    for finding in reference_findings(mesh):
        findings.add(finding)
    if not mesh.workloads:
        message = "no object of these manifests makes pods"
        hint = "give the workloads, too: Deployments and so on, or the pods (`kubectl get pods -A -o yaml`)"
        findings.warning("ADM985", message, None, hint=hint)
    elif not is_declared(mesh):
        findings.add(_undeclared())
        return Outcome(None, tuple(findings.items), Exit.INPUT)
    if findings.has_errors and not options.keep_going:
        return Outcome(None, tuple(findings.items), Exit.INPUT)
    code = Exit.INPUT if findings.has_errors else Exit.DONE
    return Outcome(advise(mesh, inputs.skipped), tuple(findings.items), code)


def _absent_namespaces(objects: tuple[Object, ...], injected: frozenset[str] | None) -> Iterator[Diagnostic]:
    """The namespaces of `--injected` that no object is in."""
    known = {manifest.name if manifest.kind == "Namespace" else manifest.namespace for manifest in objects}
    for name in sorted((injected or frozenset()) - known):
        message = f"`--injected` names the namespace `{name}`, and no object is in it"
        yield Diagnostic("ADM988", Severity.ERROR, message, None, hint=did_you_mean(name, sorted(known)))


def _undeclared() -> Diagnostic:
    return Diagnostic(
        "ADM915",
        Severity.ERROR,
        "these manifests do not say which pods have a sidecar",
        None,
        "no namespace has the label `istio-injection`, `istio.io/rev` or `istio.io/dataplane-mode`, no pod has a label "
        "or an annotation for it, and none has the container `istio-proxy`",
        "say it with `--injected all`, or with `--injected NAMESPACE,...`; or give the namespaces with their labels",
    )
