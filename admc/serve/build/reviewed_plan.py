"""Serves a plan as it was reviewed: with its decisions, not with those that the solver would make today.

A plan names its input files with digests, and holds its decisions. Both are checked. The program is read again, and
every file must have its digest. The decisions become a placement again, and the verifier must accept it: an edited plan
cannot leave a policy out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from admc.compile.pipeline import costs_of, expressible, folder_of, load_program
from admc.exits import CommandError, wrong_usage
from admc.plan.read import read_plan
from admc.serve.file_watch import look
from dsl.files.folders import folder_reader
from solver.placement import Adm, Decision, ObjectiveValue, Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from admc.plan.model import Plan
    from admc.serve.file_watch import Signature
    from dsl.program import Program

SHOWN = 3


def recording(
    folder: Path, stats: Signature, contents: dict[str, bytes], include: Sequence[Path] = ()
) -> Callable[[str], bytes]:
    """A reader of files in a folder and in those of `include`. It records the stat of each file before it is read, so
    that the server can follow it."""
    inner = folder_reader(folder, include)

    def read(path: str) -> bytes:
        stats[folder / path] = look(folder / path)
        contents[path] = inner(path)
        return contents[path]

    return read


def placed(
    path: Path, stats: Signature, contents: dict[str, bytes], include: Sequence[Path] = ()
) -> tuple[Program, Placement]:
    """The program that a plan was made from, and its placement. Raises `CommandError`."""
    stats[path] = look(path)
    plan = read_plan(path, regular=True)
    if not plan.inputs:
        raise _unfit(path, "it names no program", "compile again to write a new one")
    main = path.parent / plan.inputs[0].path
    if main.parent != path.parent:
        raise _unfit(path, f"its program `{plan.inputs[0].path}` is not beside it", "compile again to write a new one")
    program = load_program(main, recording(path.parent, stats, contents, include), include=include)
    return program, checked(path, plan, program)


def checked(path: Path, plan: Plan, program: Program) -> Placement:
    """The placement of a plan, if the verifier accepts it for this program. Raises `CommandError`."""
    _same_files(path, plan, program)
    _same_profile(path, plan, program)
    placement = _placement(path, plan, program)
    from solver.verify.verifier import verify

    costs = costs_of(program, folder_of(path))
    violations = verify(program, placement, costs, older_levels=plan.schema_version == 1)
    if violations:
        messages = "; ".join(violation.message for violation in violations[:SHOWN])
        raise _unfit(path, messages, "compile again to write a new one; a plan must not be edited", code="ADM853")
    expressible(program, placement, folder_of(path))
    return placement


def _same_files(path: Path, plan: Plan, program: Program) -> None:
    wanted = {item.path: item.sha256 for item in plan.inputs}
    found = {item.path: item.sha256 for item in program.inputs}
    others = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if others:
        names = ", ".join(f"`{name}`" for name in others[:SHOWN])
        raise _unfit(
            path,
            f"{names} {'has' if len(others) == 1 else 'have'} changed since",
            "compile again to write a new plan, or put back what it was made from",
        )


def _same_profile(path: Path, plan: Plan, program: Program) -> None:
    """A profile that admc brings is no file of the program, and may be another one in another release."""
    if plan.profile is None and program.profile is None:
        return
    from admc.overhead.profiles.source import profile_of

    found = profile_of(program, folder_of(path))
    if (found and found.sha256) != (plan.profile and plan.profile.sha256):
        named = found.named if found is not None else "none"
        raise _unfit(
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
            raise _unfit(
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
            row.sides,
            tuple(sorted(covered.get((row.policy, row.destination), ()))),
            {refused.side: None for refused in row.not_taken},
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
    levels = tuple(ObjectiveValue(level.metric, level.value or 0, level.bound or 0) for level in plan.solver.objectives)
    return Placement(decisions, adms, tuple(item.destination for item in plan.closed), plan.solver.status, levels)


def _unfit(path: Path, cause: str, hint: str, *, code: str = "ADM852") -> CommandError:
    what = "was not made from the files beside it" if code == "ADM852" else "is no correct placement of its program"
    return wrong_usage(code, f"the plan `{path}` {what}", cause=cause, hint=hint)
