"""The page of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from admc.base.baseline import baseline_of
from admc.base.terminal import counted, visible
from admc.compile.plan.model import FREE, Plan
from admc.review.report.costs import breakdown, comparison
from admc.review.report.graph import SMALLEST_SIGN, Drawn, Line, graph, most_important, sign_size
from admc.review.report.mesh import Mesh
from admc.review.report.model import Cell, Page, Section
from admc.review.report.panels import Panels
from admc.review.report.words import at, does, enforced_at, names, row
from dsl.program import Side
from dsl.words import few
from solver.placement import Status

MOST_ROWS: Final = 2000
"""The rows of one table."""


def plan_page(plan: Plan, note: str = "") -> Page:
    """The page of a plan. `note` is a sentence about the origin of the plan."""
    mesh = Mesh(plan)
    adms = {adm.service: len(adm.policies) for adm in plan.adms}
    shown = most_important(mesh.parties, adms, list(mesh.calls))
    nodes = {name: index for index, name in enumerate(name for name in mesh.parties if name in shown)}
    panels = Panels(mesh, nodes)
    drawn = graph(_drawn(mesh, nodes, panels), _lines(mesh, nodes, panels))
    return Page(
        f"{visible(plan.app)}: the plan",
        _facts(mesh, note),
        _doubts(mesh, len(nodes)),
        drawn.nodes,
        drawn.edges,
        tuple(visible(policy.name) for policy in plan.policies),
        mesh.legend,
        (
            comparison(mesh),
            *breakdown(mesh, nodes),
            _adms(mesh, nodes),
            _policies(mesh, nodes),
            *_assumed(mesh),
            *_inputs(mesh),
        ),
        _graph_note(mesh),
    )


def _drawn(mesh: Mesh, nodes: Mapping[str, int], panels: Panels) -> list[Drawn]:
    costs = {adm.service: adm.overhead.cpu.value for adm in mesh.plan.adms if adm.overhead is not None}
    highest = max(costs.values(), default=0)
    boxes = []
    for name in nodes:
        adm = mesh.adms.get(name)
        sign = 0.0 if adm is None else sign_size(costs[name], highest) if name in costs else SMALLEST_SIGN
        policies = (
            {mesh.index[hosted.policy] for hosted in adm.policies if hosted.policy in mesh.index} if adm else set()
        )
        policies |= {mesh.index[policy] for policy in mesh.in_network.get(name, ()) if policy in mesh.index}
        boxes.append(
            Drawn(
                name,
                mesh.shape(name),
                adm is not None,
                sign,
                name in mesh.closed,
                mesh.hosts(name),
                mesh.replicas(name),
                policies=tuple(sorted(policies)),
                panel=panels.party(name),
            )
        )
    return boxes


def _lines(mesh: Mesh, nodes: Mapping[str, int], panels: Panels) -> list[Line]:
    return [
        Line(
            *pair,
            mesh.look(pair),
            f"{visible(pair[0])} → {visible(pair[1])}",
            tuple(
                sorted(
                    {
                        mesh.index[enforcement.policy]
                        for enforcement in mesh.enforced.get(pair, ())
                        if enforcement.policy in mesh.index
                    }
                )
            ),
            panels.call(pair),
        )
        for pair in mesh.calls
        if pair[0] in nodes and pair[1] in nodes
    ]


def _facts(mesh: Mesh, note: str) -> tuple[str, ...]:
    plan = mesh.plan
    sidecars = sum(adm.replicas for adm in plan.adms)
    proven = (
        "proven optimal: no correct placement needs less"
        if plan.solver.status is Status.OPTIMAL
        else "correct, but not proven optimal"
    )
    facts = [
        baseline_of(plan.services).sentence(len(plan.adms), "hosts", "host"),
        counted(sidecars, "sidecar"),
        counted(len(plan.policies), "policy", "policies"),
        proven,
        f"profile `{visible(plan.profile.named)}`" if plan.profile is not None else "no profile, so no figure of cost",
    ]
    return (*facts, note) if note else tuple(facts)


def _doubts(mesh: Mesh, drawn: int) -> tuple[str, ...]:
    hidden = len(mesh.parties) - drawn
    if not hidden:
        return ()
    return (f"The graph leaves out {counted(hidden, 'party', 'parties')}: ADMs and their neighbours go first.",)


def _graph_note(mesh: Mesh) -> str:
    sized = "The area of a hexagon is the CPU of its ADM. " if mesh.plan.overhead is not None else ""
    return f"Callers are left of what they call. {sized}A click shows why an ADM is there, and what a call meets."


def _adms(mesh: Mesh, nodes: Mapping[str, int]) -> Section:
    rows = []
    for adm in mesh.plan.adms[:MOST_ROWS]:
        sides = {
            side: names(list(dict.fromkeys(hosted.policy for hosted in adm.policies if hosted.side is side)))
            for side in Side
        }
        # A rule is a reason for the ADM to exist. A free choice is only a reason for a policy to be at this ADM.
        why = next((reason for reason in adm.because if reason.rule != FREE), next(iter(adm.because), None))
        rows.append(
            (
                Cell(visible(adm.service), nodes.get(adm.service)),
                Cell(str(adm.replicas)),
                Cell(sides[Side.INGRESS]),
                Cell(sides[Side.EGRESS]),
                Cell("" if why is None else visible(why.text)),
            )
        )
    return Section("ADMs", head=("service", "sidecars", "ingress", "egress", "because"), rows=tuple(rows))


def _policies(mesh: Mesh, nodes: Mapping[str, int]) -> Section:
    hosts: dict[str, dict[str, None]] = {}
    for enforcement in mesh.plan.enforcements:
        hosts.setdefault(enforcement.policy, {})[enforced_at(enforcement)] = None
    rows = []
    for policy in mesh.plan.policies[:MOST_ROWS]:
        listed = list(hosts.get(policy.name, {}))
        rows.append(row(visible(policy.name), does(policy), few(listed, 6) or "on no call", at(policy.line)))
    return Section("Policies, in declared order", head=("policy", "does", "enforced at", "line"), rows=tuple(rows))


def _assumed(mesh: Mesh) -> list[Section]:
    assumed = tuple(row(names(assumption.about), visible(assumption.text)) for assumption in mesh.plan.assumptions)
    warned = tuple(
        row(visible(warning.code), visible(warning.message), "" if warning.line is None else at(warning.line))
        for warning in mesh.plan.warnings
    )
    sections = []
    if assumed:
        note = "admc cannot check these."
        sections.append(Section("Assumed", note, head=("about", "what is assumed"), rows=assumed))
    if warned:
        sections.append(Section("Warnings", head=("code", "what", "line"), rows=warned))
    return sections


def _inputs(mesh: Mesh) -> list[Section]:
    rows = [row(visible(file.path), f"sha256 {visible(file.sha256)}") for file in mesh.plan.inputs]
    solver = mesh.plan.solver
    rows += [
        row(f"objective: {visible(level.metric)}", _level(level.value, level.bound)) for level in solver.objectives
    ]
    return [Section("Inputs and objective", rows=tuple(rows), folded=True)] if rows else []


def _level(value: int | None, bound: int | None) -> str:
    if value is None:
        return "no figure"
    return f"{value}, proven" if value == bound else f"{value}; proven is at least {bound}"
