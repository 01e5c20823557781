"""The advice about a mesh: its sidecars by what declares them, and why they are there.

What is not judged keeps its sidecar.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.implicit import Feature, Implicit, implicit
from admc.istio.in_force.effects import Unused, What
from admc.istio.in_force.judge import InForce
from admc.istio.in_force.not_judged import is_for_gateways
from admc.istio.in_force.view import key_of
from admc.istio.mesh.model import Counting, Declaration, Mesh, Proxy, Revision, Workload, spec_of
from admc.istio.mesh.references import NETWORKING
from admc.istio.prices import Price, price
from admc.istio.reasons import Answer, answer
from admc.manifests.documents import Object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.cost.profiles.source import NamedProfile
    from admc.istio.calls import Measured

_MESH: Final = "mesh"
"""The name by which a VirtualService names all sidecars; it is meant where none is given."""


class Concerns(StrEnum):
    """The proxies that a resource concerns."""

    GATEWAYS = "gateways"
    """No sidecar enforces it."""
    SIDECARS = "sidecars"
    """It is in force at some."""
    NOT_JUDGED = "not judged"
    """A sidecar may enforce it, so its sidecars are kept."""
    NOWHERE = "nowhere"
    NOTHING = "nothing to enforce"
    """It describes hosts, machines or proxies."""


class Share(NamedTuple):
    """Sidecars with one declaration."""

    declaration: Declaration
    sidecars: int


class Judged(NamedTuple):
    """The resources of one kind that concern the same proxies."""

    kind: str
    concerns: Concerns
    resources: tuple[Object, ...]


class Cost(NamedTuple):
    """What keeping a feature costs."""

    feature: Feature
    sidecars: int
    """Those that have it."""
    added: int
    """Those of them that no written reason keeps."""
    total: int
    """All that are kept with this feature, those before it, and what is written."""


class Advice(NamedTuple):
    sidecars: int
    gateways: int
    ambient: int
    pods: int
    """Of all workloads."""
    at_least: bool
    """Whether more of them may run."""
    by_declaration: tuple[Share, ...]
    """Most sidecars first."""
    without: tuple[Share, ...]
    """Pods without a proxy, by what says so."""
    resources: tuple[Judged, ...]
    workloads: tuple[Workload, ...]
    revisions: tuple[Revision, ...]
    answer: Answer
    features: tuple[Cost, ...]
    kept_features: tuple[Feature, ...]
    nowhere: tuple[Unused, ...]
    measured: Measured | None
    """None without `--calls`: each workload may call all that it sees."""
    price: Price | None
    """Of the sidecars without a reason, by a profile; None without one."""
    skipped: int
    """Documents and objects that were refused, and are missing in all numbers."""


class Judgement(NamedTuple):
    """What is in force, and what is in force nowhere."""

    force: InForce
    nowhere: tuple[Unused, ...]
    measured: Measured | None = None


def advise(
    mesh: Mesh,
    judgement: Judgement,
    keep: Iterable[Feature] = (),
    profile: NamedProfile | None = None,
    skipped: int = 0,
) -> Advice:
    counts: Counter[Proxy] = Counter()
    for workload in mesh.workloads:
        counts.update({proxy: workload.number(proxy) for proxy in Proxy})
    wanted = frozenset(keep)
    features = implicit(mesh, judgement.force)
    written = answer(judgement.force)
    chosen = answer(judgement.force, [it for it in features if it.feature in wanted]) if wanted else written
    free = counts[Proxy.SIDECAR] - chosen.kept
    return Advice(
        counts[Proxy.SIDECAR],
        counts[Proxy.GATEWAY],
        counts[Proxy.AMBIENT],
        counts.total(),
        any(workload.counting is Counting.MINIMUM for workload in mesh.workloads),
        _shares(mesh.workloads, Proxy.SIDECAR),
        _shares(mesh.workloads, Proxy.NONE),
        _judged(mesh, judgement),
        mesh.workloads,
        tuple(mesh.revisions[name] for name in sorted(mesh.revisions)),
        chosen,
        _costs(features, written),
        tuple(feature for feature in Feature if feature in wanted),
        judgement.nowhere,
        judgement.measured,
        None if profile is None else price(free, profile),
        skipped,
    )


def _costs(features: tuple[Implicit, ...], written: Answer) -> tuple[Cost, ...]:
    kept = {key_of(it.workload) for it in written.workloads if it.number}
    together = set(kept)
    total = written.kept
    made = []
    for feature, workloads in features:
        number = sum(it.number(Proxy.SIDECAR) for it in workloads)
        added = sum(it.number(Proxy.SIDECAR) for it in workloads if key_of(it) not in kept)
        total += sum(it.number(Proxy.SIDECAR) for it in workloads if key_of(it) not in together)
        together |= {key_of(it) for it in workloads}
        made.append(Cost(feature, number, added, total))
    return tuple(made)


def _shares(workloads: Iterable[Workload], proxy: Proxy) -> tuple[Share, ...]:
    counts: Counter[Declaration] = Counter()
    for workload in workloads:
        if workload.counting is Counting.PODS:
            counts.update(presence.by for presence in workload.pods if presence.proxy is proxy)
        elif workload.presence.proxy is proxy:
            counts[workload.presence.by] += workload.replicas
    listed = [Share(declaration, number) for declaration, number in counts.items() if number]
    return tuple(sorted(listed, key=lambda share: (-share.sidecars, share.declaration)))


def _judged(mesh: Mesh, judgement: Judgement) -> tuple[Judged, ...]:
    whats: dict[int, set[What]] = defaultdict(set)
    for effect in judgement.force.effects:
        whats[id(effect.resource.object)].add(effect.what)
    nowhere = {id(it.resource.object) for it in judgement.nowhere if not it.resource.where}
    made: dict[tuple[str, Concerns], list[Object]] = defaultdict(list)
    for (_, kind), resources in mesh.resources.items():
        for manifest in resources:
            what = _concerns(manifest, whats[id(manifest)], is_nowhere=id(manifest) in nowhere)
            made[kind, what].append(manifest)
    return tuple(Judged(kind, what, tuple(listed)) for (kind, what), listed in sorted(made.items()))


def _concerns(manifest: Object, whats: set[What], *, is_nowhere: bool) -> Concerns:
    if concerns_gateways(manifest):
        return Concerns.GATEWAYS
    if What.NOT_JUDGED in whats:
        return Concerns.NOT_JUDGED
    if whats:
        return Concerns.SIDECARS
    return Concerns.NOWHERE if is_nowhere else Concerns.NOTHING


def concerns_gateways(manifest: Object) -> bool:
    """Whether a resource concerns gateways alone."""
    of = manifest.group, manifest.kind
    if of == (NETWORKING, "VirtualService"):
        gateways: Any = spec_of(manifest).get("gateways")
        # One without hosts is a part of others, which name the gateways.
        only = isinstance(gateways, list) and bool(gateways) and _MESH not in gateways
        return only and bool(spec_of(manifest).get("hosts"))
    return of == (NETWORKING, "Gateway") or is_for_gateways(manifest)
