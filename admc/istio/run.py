"""The run of `admc advise`: from texts to advice and findings. It reads no file, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from admc.base.exits import Exit
from admc.istio.advice import Advice, Judgement, advise
from admc.istio.call_files import read_calls
from admc.istio.calls import Measured
from admc.istio.findings import findings_of
from admc.istio.guesses import guess_calls
from admc.istio.implicit import Feature
from admc.istio.in_force.calls import EVERY_CALL
from admc.istio.in_force.judge import in_force
from admc.istio.in_force.unused import unused
from admc.istio.inputs.reading import Reading, read_objects
from admc.istio.mesh.build import build, is_declared
from admc.istio.mesh.references import reference_findings
from dsl.collector import no_collection
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity, did_you_mean

if TYPE_CHECKING:
    from admc.cost.profiles.source import NamedProfile
    from admc.istio.inputs.reading import Source
    from admc.istio.mesh.model import Mesh
    from admc.manifests.documents import Object
    from dsl.text import SourceText


class Options(NamedTuple):
    namespace: str
    """That of objects that name none."""
    injected: frozenset[str] | None = frozenset()
    """The namespaces of `--injected`; None for all."""
    keep_going: bool = False
    raw: bool = False
    keep: tuple[Feature, ...] = ()
    calls: SourceText | None = None
    """The text of `--calls`."""
    guess: bool = False
    """Whether calls are taken from the names of Services in pods."""
    profile: NamedProfile | None = None
    fail_on: frozenset[str] = frozenset()
    """The codes of findings with which the run ends with exit code 4."""


class Outcome(NamedTuple):
    advice: Advice | None
    """None where there are errors, without `--keep-going`; or where it is declared nowhere which pods have a
    sidecar."""
    findings: tuple[Diagnostic, ...]
    exit_code: Exit
    breached: tuple[str, ...] = ()
    """The codes of `--fail-on` that findings have."""


def run(sources: Iterable[Source], options: Options, findings: Diagnostics) -> Outcome:
    """`findings` has those about paths already."""
    inputs = read_objects(sources, findings, options.namespace, Reading(options.raw, texts=options.guess))
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
    elif options.injected == frozenset() and not is_declared(mesh):
        findings.add(_undeclared())
        return Outcome(None, tuple(findings.items), Exit.INPUT)
    measured = guess_calls(mesh) if options.guess else None
    if options.calls is not None:
        measured = read_calls(options.calls, mesh, findings)
    if findings.has_errors and not options.keep_going:
        return Outcome(None, tuple(findings.items), Exit.INPUT)
    with no_collection():
        judgement = judge(mesh, measured)
        about_force = tuple(findings_of(judgement.force, judgement.nowhere))
        advice = advise(mesh, judgement, options.keep, options.profile, inputs.skipped)
    # Of many findings the list drops some, but an exit code may depend on each.
    codes = {item.code for item in (*findings.items, *about_force)}
    for finding in about_force:
        findings.add(finding)
    breached = tuple(sorted(codes & options.fail_on))
    return Outcome(advice, tuple(findings.items), _exit_code(findings, breached), breached)


def judge(mesh: Mesh, measured: Measured | None) -> Judgement:
    force = in_force(mesh, EVERY_CALL if measured is None else measured.calls)
    return Judgement(force, unused(mesh, force), measured)


def _exit_code(findings: Diagnostics, breached: tuple[str, ...]) -> Exit:
    if findings.has_errors:
        return Exit.INPUT
    return Exit.GATE if breached else Exit.DONE


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
        "for it (an annotation alone calls no webhook), and none has the container `istio-proxy`",
        "say it with `--injected all`, or with `--injected NAMESPACE,...`; or give the namespaces with their labels",
    )
