"""The summary of a plan, which a user reads in ten seconds: how many sidecars, where, and why.

The placement comes from the plan itself, so the summary cannot differ from the plan. The effects of the order of
policies come from the program, because only the program has the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from admc.base.baseline import Baseline, baseline_of
from admc.base.terminal import counted
from admc.compile.plan.model import FREE, AdmPlan, Because, Plan, SourceLine
from admc.compile.plan.timeouts import limit_sentences
from dsl.documents import plain
from dsl.program import Place, Program, Side
from solver.placement import Status


class Row(NamedTuple):
    """One ADM: its policies at each side, and its main reason."""

    service: str
    ingress: tuple[str, ...]
    egress: tuple[str, ...]
    because: str
    line: SourceLine | None


@dataclass(frozen=True)
class Summary:
    app: str
    baseline: Baseline
    sidecars: int
    """The number of sidecars in the plan: all replicas of all ADMs."""
    policies: int
    proof: str
    rows: tuple[Row, ...]
    plan: Plan
    limits: tuple[str, ...] = ()
    """For each timeout with a retry on the same call: the attempts that it limits."""

    @property
    def in_network(self) -> tuple[str, ...]:
        """Each policy that NetworkPolicies alone enforce, with its destinations: `readers at rate, user`."""
        places: dict[str, list[str]] = {}
        for decision in self.plan.decisions:
            if decision.place is Place.NETWORK:
                places.setdefault(decision.policy, []).append(decision.destination)
        return tuple(f"{policy} at {', '.join(destinations)}" for policy, destinations in places.items())


def summarize(program: Program, plan: Plan) -> Summary:
    return _summary(plan, baseline_of(program.services.values()), limit_sentences(program.policies))


def summary_of(plan: Plan) -> Summary:
    """The summary of a plan without its program. It has no limits of timeouts."""
    return _summary(plan, baseline_of(plan.services), ())


def _summary(plan: Plan, baseline: Baseline, limits: tuple[str, ...]) -> Summary:
    return Summary(
        app=plan.app,
        baseline=baseline,
        sidecars=sum(adm.replicas for adm in plan.adms),
        policies=len(plan.policies),
        proof=_proof(plan),
        rows=tuple(_row(adm) for adm in plan.adms),
        plan=plan,
        limits=limits,
    )


def headline(summary: Summary) -> str:
    adms, baseline = len(summary.rows), summary.baseline
    if not adms:
        return f"{counted(baseline.services, 'service')}, and none needs an ADM"
    text = baseline.sentence(adms, "gets", "get", share=True)
    if baseline.sidecars != baseline.hosts:
        text += f"; with replicas {counted(summary.sidecars, 'sidecar')} instead of {baseline.sidecars}"
    return text


def facts(summary: Summary) -> dict[str, object]:
    """The summary's numbers for the JSON format."""
    return {
        "app": summary.app,
        "services": summary.baseline.services,
        "services_that_can_host": summary.baseline.hosts,
        "adms": len(summary.rows),
        "full_mesh_sidecars": summary.baseline.sidecars,
        "full_mesh_everywhere_sidecars": summary.baseline.sidecars_everywhere,
        "sidecars": summary.sidecars,
        "policies": summary.policies,
        "enforcements": len(summary.plan.enforcements),
        "status": summary.plan.solver.status.value,
        "timeouts": list(summary.limits),
        **({} if summary.plan.overhead is None else {"overhead": plain(summary.plan.overhead.totals)}),
    }


def _row(adm: AdmPlan) -> Row:
    # A rule explains why the ADM exists; a free choice only explains why a policy is at it.
    because = next((item for item in adm.because if item.rule != FREE), adm.because[0] if adm.because else None)
    return Row(
        adm.service,
        tuple(item.policy for item in adm.policies if item.side is Side.INGRESS),
        tuple(item.policy for item in adm.policies if item.side is Side.EGRESS),
        _why(because),
        because.lines[0] if because is not None and because.lines else None,
    )


def _why(because: Because | None) -> str:
    if because is None:
        return ""
    name = f"`{because.policy}`"
    return because.text if because.text.startswith(name) else f"{name}: {because.text}"


def _proof(plan: Plan) -> str:
    if plan.solver.status is Status.OPTIMAL:
        return "proven optimal: no correct placement needs less"
    open_levels = [
        f"{level.metric} {level.value}, proven to be at least {level.bound}"
        for level in plan.solver.objectives
        if level.value != level.bound
    ]
    return "correct, but not proven optimal: " + "; ".join(open_levels or ["a later objective is open"])
