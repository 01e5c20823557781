"""Checks that a reviewed plan fits its program. The decisions of the plan are then used, and the solver does not run.

Four parts of the plan are checked (`checked` leaves out the last one):

    digests of the input files    each must be the digest of the present file
    digest of the profile         it must be that of the present profile, which may be a built-in one
    decisions                     they become a placement, which the verifier must accept: no policy can be left out;
                                  Envoy and NetworkPolicies must be able to express it
    parts of the program          they must agree with the program (`admc/compile/plan/agreement.py`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import command
from admc.compile.facts import FACTS
from admc.compile.pipeline import costs_of, expressible, folder_of
from admc.compile.plan.agreement import disagreement
from admc.compile.plan.previous import levels_of
from solver.placement import Adm, Decision, Placement

if TYPE_CHECKING:
    from pathlib import Path

    from admc.compile.plan.model import Plan
    from dsl.program import Program

SHOWN = 3


def checked(path: Path, plan: Plan, program: Program) -> Placement:
    """The placement of a plan, if its digests fit this program, the verifier accepts it, and it can be expressed. Parts
    of the program in the plan are not compared (`same_contents`). Raises `CommandError`."""
    _same_files(path, plan, program)
    _same_profile(path, plan, program)
    placement = _placement(path, plan, program)
    from solver.verify.verifier import verify

    costs = costs_of(program, folder_of(path))
    violations = verify(program, placement, costs)
    if violations:
        messages = "; ".join(violation.message for violation in violations[:SHOWN])
        raise unfit(path, messages, "compile again to write a new one; a plan must not be edited", code="ADM853")
    expressible(program, placement, folder_of(path))
    return placement


def served(path: Path, plan: Plan, program: Program) -> Placement:
    """The placement of a plan that the server would serve for this program. Raises `CommandError`.

    Costs are left out, because they need not agree.
    """
    from admc.compile.plan.build import build

    placement = checked(path, plan, program)
    same_contents(path, plan, build(program, placement, None))
    return placement


def same_contents(path: Path, plan: Plan, anew: Plan) -> None:
    """Check that a plan agrees with the plan `anew`, which is built from its program and its decisions. Raises
    `CommandError`."""
    differing = disagreement(plan, anew)
    if differing is not None:
        hint = (
            f"compile again: `{command('compile', plan.inputs[0].path, '--previous', path.name)}`; do not edit a plan"
        )
        raise unfit(path, f"{differing}: it was edited, or made by a release in which a kind is another one", hint)


def _same_files(path: Path, plan: Plan, program: Program) -> None:
    wanted = {item.path: item.sha256 for item in plan.inputs}
    present = {item.path: item.sha256 for item in program.inputs}
    others = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if others == [FACTS]:
        made, given = (("with " if FACTS in inputs else "without ") for inputs in (wanted, present))
        cause = f"it was made {made}facts of a cluster (`{FACTS}`), and is used {given}them"
        if FACTS in wanted and FACTS in present:
            cause = f"it was made with other facts of a cluster (`{FACTS}`) than those at present"
        raise unfit(path, cause, "compile again, with the facts of the cluster in `--facts FILE`")
    if others:
        names = ", ".join(f"`{name}`" for name in others[:SHOWN])
        raise unfit(
            path,
            f"{names} {'has' if len(others) == 1 else 'have'} changed since",
            "compile again to write a new plan, or put back what it was made from",
        )


def _same_profile(path: Path, plan: Plan, program: Program) -> None:
    """Check the profile. A built-in profile is no file of the program, and may differ in another release."""
    if plan.profile is None and program.profile is None:
        return
    from admc.cost.profiles.source import profile_of

    profile = profile_of(program, folder_of(path))
    if (profile and profile.sha256) != (plan.profile and plan.profile.sha256):
        named = profile.named if profile is not None else "none"
        raise unfit(
            path,
            f"the profile `{named}` has changed since",
            "compile again to write a new plan: costs are estimated by other figures now",
        )


def _placement(path: Path, plan: Plan, program: Program) -> Placement:
    """The plan's decisions as a placement. The reasons stay in the plan, since the server does not need them."""
    calls = {(call.source, call.destination, call.port.number): index for index, call in enumerate(program.calls)}
    covered: dict[tuple[str, str], set[int]] = {}
    for row in plan.enforcements:
        index = calls.get((row.source, row.destination, row.port))
        if index is not None:
            covered.setdefault((row.policy, row.destination), set()).add(index)
        elif row.source != "*":
            raise unfit(
                path,
                f"it enforces `{row.policy}` on a call from `{row.source}` to port {row.port} of `{row.destination}`, "
                "which the program does not have",
                "compile again to write a new one",
                code="ADM853",
            )
    decisions = tuple(
        Decision(
            row.policy,
            row.destination,
            row.place,
            tuple(sorted(covered.get((row.policy, row.destination), ()))),
            {refused.place: None for refused in row.not_taken},
            open=row.open,
            ports=row.ports,
            closes=row.closes,
        )
        for row in plan.decisions
    )
    from dsl.program import Side

    adms = tuple(
        Adm(
            adm.service,
            tuple(item.policy for item in adm.policies if item.side is Side.INGRESS),
            tuple(item.policy for item in adm.policies if item.side is Side.EGRESS),
        )
        for adm in plan.adms
    )
    closed = tuple(item.destination for item in plan.closed)
    return Placement(decisions, adms, closed, plan.solver.status, levels_of(plan))


def unfit(path: Path, cause: str, hint: str, *, code: str = "ADM852") -> CommandError:
    what = "was not made from the files beside it" if code == "ADM852" else "is no correct placement of its program"
    return wrong_usage(code, f"the plan `{path}` {what}", cause=cause, hint=hint)
