"""Sections about cost: no mesh, the plan and a full mesh side by side, and the CPU by ADM, component and part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from admc.base.terminal import visible
from admc.cost.model.overhead import Lack, Missing
from admc.cost.overhead_notes import phrases
from admc.cost.rows import AdmRow, AllTotals, AmountRow, MissingRow, OverheadRow
from admc.review.report.figures import CORES, LATENCY, MEMORY, Measured, Unit, bars, counts
from admc.review.report.mesh import Mesh
from admc.review.report.model import Bar, BarGroup, Section
from admc.review.report.panels import component_name
from admc.review.report.words import names, row

MOST_BARS: Final = 25
_COMPARISON: Final = "Full mesh, plan and none"
_KINDS: Final = (
    ("no mesh", "none", "none"),
    ("this plan", "plan", "plan"),
    ("full mesh, where a sidecar can be", "full_mesh", "mesh"),
    ("full mesh, everywhere", "full_mesh_everywhere", "mesh"),
)


def comparison(mesh: Mesh) -> Section:
    """No mesh, the plan and a full mesh: compared by cost if there is a profile, else by numbers of sidecars."""
    return _counted(mesh) if mesh.plan.overhead is None else _priced(mesh.plan.overhead.totals)


def breakdown(mesh: Mesh, nodes: Mapping[str, int]) -> list[Section]:
    """The sections about CPU by ADM, component and part; none without a profile."""
    overhead = mesh.plan.overhead
    if overhead is None:
        return []
    groups = (
        BarGroup("by ADM", _by_adm(mesh, nodes)),
        BarGroup("by component, of policies", _by_component(mesh)),
        BarGroup("by part, of sidecars and hops", _by_part(mesh)),
    )
    note = "Components, parts and sidecars without requests add up to the CPU of the plan."
    return [
        Section("CPU of the plan, in cores", note, groups=tuple(group for group in groups if group.bars)),
        *_lacks(overhead),
    ]


def _priced(totals: AllTotals) -> Section:
    all_of = [(label, getattr(totals, field), look) for label, field, look in _KINDS]

    def group(title: str, what: str, unit: Unit) -> BarGroup:
        return BarGroup(
            title, bars([Measured(label, getattr(total, what), look) for label, total, look in all_of], unit)
        )

    return Section(
        _COMPARISON,
        "Estimated by the profile. A full mesh enforces each policy where the plan does.",
        groups=(
            BarGroup("sidecars", counts([(label, total.sidecars, look) for label, total, look in all_of])),
            group("CPU, cores", "cpu", CORES),
            group("memory, MB", "memory", MEMORY),
            group("added latency, ms in a second", "latency_per_second", LATENCY),
        ),
    )


def _counted(mesh: Mesh) -> Section:
    services = list(mesh.services.values())
    hosting = [service for service in services if mesh.hosts(service.name)]
    adms = mesh.plan.adms
    rows = (
        ("no mesh", 0, 0),
        ("this plan", len(adms), sum(adm.replicas for adm in adms)),
        ("full mesh, where a sidecar can be", len(hosting), sum(service.replicas for service in hosting)),
        ("full mesh, everywhere", len(services), sum(service.replicas for service in services)),
    )
    looks = [look for _label, _field, look in _KINDS]
    return Section(
        _COMPARISON,
        "The program names no profile, so there is no figure of cost.",
        groups=(
            BarGroup(
                "services with an ADM",
                counts([(label, adms, look) for (label, adms, _pods), look in zip(rows, looks, strict=True)]),
            ),
            BarGroup(
                "sidecars, one for each replica",
                counts([(label, pods, look) for (label, _adms, pods), look in zip(rows, looks, strict=True)]),
            ),
        ),
    )


def _costs(mesh: Mesh) -> list[tuple[str, AdmRow]]:
    return [(adm.service, adm.overhead) for adm in mesh.plan.adms if adm.overhead is not None]


def _by_adm(mesh: Mesh, nodes: Mapping[str, int]) -> tuple[Bar, ...]:
    costs = sorted(_costs(mesh), key=lambda named_cost: (-named_cost[1].cpu.value, named_cost[0]))
    measured = [Measured(visible(name), cost.cpu, "", nodes.get(name)) for name, cost in costs]
    return bars(_shortened(measured, [cost.cpu for _name, cost in costs]), CORES)


def _by_component(mesh: Mesh) -> tuple[Bar, ...]:
    amounts_by_name: dict[str, list[AmountRow | None]] = {}
    for _service, cost in _costs(mesh):
        for hop in cost.hops:
            for component in hop.components:
                amounts_by_name.setdefault(component_name(component), []).append(component.cpu)
    return _summed(amounts_by_name)


def _by_part(mesh: Mesh) -> tuple[Bar, ...]:
    amounts_by_name: dict[str, list[AmountRow | None]] = {}
    for _service, cost in _costs(mesh):
        amounts_by_name.setdefault("sidecars without requests", []).append(cost.idle_cpu)
        for part in cost.parts:
            amount = None if part.cpu is None else AmountRow(part.cpu, None, False)
            name = "hops" if part.name == "whole" else f"hops: {visible(part.name)}"
            amounts_by_name.setdefault(name, []).append(amount)
    return _summed(amounts_by_name)


def _summed(amounts_by_name: Mapping[str, list[AmountRow | None]]) -> tuple[Bar, ...]:
    sums = [(name, _sum(amounts)) for name, amounts in amounts_by_name.items()]
    sums.sort(key=lambda named_sum: (-named_sum[1].value, named_sum[0]))
    return bars(_shortened([Measured(name, amount) for name, amount in sums], [amount for _, amount in sums]), CORES)


def _sum(amounts: Iterable[AmountRow | None]) -> AmountRow:
    """The sum of amounts, without an interval: intervals of dependent errors cannot be added."""
    listed = list(amounts)
    known = [amount for amount in listed if amount is not None]
    lacks = len(known) < len(listed) or any(amount.at_least for amount in known)
    return AmountRow(sum(amount.value for amount in known), None, lacks)


def _shortened(measured: list[Measured], amounts: list[AmountRow]) -> list[Measured]:
    if len(measured) <= MOST_BARS:
        return measured
    rest = amounts[MOST_BARS:]
    return [*measured[:MOST_BARS], Measured(f"{len(rest)} others", _sum(rest))]


def _lacks(overhead: OverheadRow) -> list[Section]:
    missing = [row("no figure", text, names(lack.services)) for lack in overhead.missing for text in _missing(lack)]
    outside = [
        row("extrapolated", f"in the {visible(figure.what)}: {visible(figure.subject)}", names(figure.services))
        for figure in overhead.extrapolated
    ]
    if not missing and not outside:
        return []
    return [
        Section(
            "What the estimate lacks",
            "A sum that lacks a figure says `at least`. What is extrapolated lies beyond what was measured.",
            head=("", "what", "ADMs"),
            rows=(*missing, *outside),
            folded=True,
        )
    ]


def _missing(lack: MissingRow) -> list[str]:
    if lack.reason not in set(Lack):
        return [f"{visible(lack.reason)}: {visible(lack.subject)}"]
    return phrases([Missing(Lack(lack.reason), lack.subject, lack.services)])
