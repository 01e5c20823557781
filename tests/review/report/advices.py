"""Advices that the tests of the page share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from admc.base.findings.json import FindingRow, Location, RelatedRow
from admc.istio.document import (
    AdviceDocument,
    CallsRow,
    CitedRow,
    GuessRow,
    Line,
    PriceRow,
    ReasonRow,
    ResourceRow,
    ResourcesRow,
    RevisionRow,
    SettingRow,
    UnaskedRow,
    WorkloadRow,
)
from admc.istio.in_force.effects import Layer, What
from admc.istio.mesh.model import Counting, Declaration, Proxy
from dsl.diagnostics.diagnostic import Severity
from tests.istio.ten_meshes import advice
from tests.review.report.programs import HOSTILE

PODS: Final = 5_000
NAMESPACES: Final = 150
REASONS: Final = 300


@cache
def of_mesh(case: str) -> AdviceDocument:
    return advice(case)


def large() -> AdviceDocument:
    """5,000 workloads with a sidecar each, of which every second has all of 300 reasons, and the others none."""
    made = of_mesh("principals")
    cited = tuple(
        CitedRow(f"AuthorizationPolicy shop/p-{at}", Line("mesh.yaml", at + 1), (What.AUTHORIZATION,), Layer.CONNECTION)
        for at in range(REASONS)
    )
    workloads = tuple(
        WorkloadRow(
            namespace=f"ns-{at % NAMESPACES:03}",
            kind="Deployment",
            name=f"app-{at}",
            pods=1,
            counted_by=Counting.REPLICAS,
            proxy=Proxy.SIDECAR,
            by=Declaration.NAMESPACE_LABEL,
            revision=None,
            declared=Line("mesh.yaml", 1),
            sidecars=1,
            reasons=cited if at % 2 else (),
            common_reasons=None,
            location=Line("mesh.yaml", 10 * at + 1),
        )
        for at in range(PODS)
    )
    reasons = tuple(
        ReasonRow("routes", it.reason, it.location, it.does, it.layer, sidecars=PODS // 2, alone=0) for it in cited
    )
    unused = replace(of_mesh("nowhere").not_in_force[0], name="n")
    return replace(
        made,
        sidecars=replace(made.sidecars, today=PODS, pods=PODS),
        free=PODS // 2,
        reasons=reasons,
        workloads=workloads,
        not_in_force=tuple(replace(unused, name=f"n-{at}") for at in range(1000)),
    )


def hostile() -> AdviceDocument:
    """Names and texts that would be run if any of them were taken for markup or script."""
    made = of_mesh("principals")
    evil = iter(HOSTILE * 100)

    def line() -> Line:
        return Line(next(evil), 1)

    def cited() -> CitedRow:
        return CitedRow(HOSTILE[0], line(), (What.ROUTE,), Layer.REQUEST)

    location = Location(HOSTILE[1], 1, 1, 1, 1)
    finding = FindingRow(
        next(evil), Severity.WARNING, next(evil), next(evil), next(evil), location, (RelatedRow(next(evil), location),)
    )
    return replace(
        made,
        version=next(evil),
        schemas={name: name for name in HOSTILE},
        calls=CallsRow(next(evil), True, 7.0, 1, 0, 0, (GuessRow(next(evil), next(evil), next(evil), line()),)),
        price=PriceRow(3, next(evil), "0" * 64, next(evil), True, 1.0, None),
        groups=tuple(replace(it, group=next(evil)) for it in made.groups),
        reasons=tuple(
            ReasonRow(next(evil), text, line(), (What.ROUTE, What.NOT_JUDGED), Layer.REQUEST, 3, 1) for text in HOSTILE
        ),
        unasked=tuple(UnaskedRow(text, text, 1, 1, 1) for text in HOSTILE),
        not_in_force=tuple(
            replace(it, kind=next(evil), namespace=next(evil), name=next(evil), location=line(), by=line())
            for it in of_mesh("nowhere").not_in_force
        ),
        resources=tuple(
            ResourcesRow(next(evil), concerns, (ResourceRow(next(evil), next(evil), line()),))
            for concerns in ("not judged", *HOSTILE)
        ),
        workloads=tuple(
            replace(
                it,
                namespace=next(evil),
                kind=next(evil),
                name=next(evil),
                revision=next(evil),
                declared=line(),
                reasons=(cited(), cited()) if at % 2 else (),
                location=line(),
            )
            for at, it in enumerate(made.workloads)
        ),
        revisions=(RevisionRow(next(evil), line(), {text: SettingRow(text, False) for text in HOSTILE}),),
        diagnostics=(finding,),
    )
