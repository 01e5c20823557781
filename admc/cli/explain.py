"""`admc explain`: the reasons for an ADM and for the side of a policy, and the meaning of a code."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from admc.base.exits import Exit, wrong_usage
from admc.base.files import is_folder, present
from admc.base.findings.report import Format
from admc.cli.options import IncludeOption
from admc.cli.suggestions import ALL_KINDS, names, subjects

if TYPE_CHECKING:
    from admc.compile.explain.answers import CostOfOther
    from admc.compile.explain.explanation import Explanation
    from dsl.program import Program
    from solver.placement import Placement

CODE = re.compile(r"ADM[0-9]{3}", re.IGNORECASE)
RULE = re.compile(r"R([1-9]|10)", re.IGNORECASE)


class ExplainFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def explain(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM|CODE|RULE|KIND",
            help="A program, a code (ADM606), a rule (R6), a kind (retry), or `kinds` for all kinds.",
            autocompletion=subjects,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A service, policy or kind of the program.", autocompletion=names),
    ] = None,
    include: IncludeOption = None,
    format_: Annotated[
        ExplainFormat, typer.Option("--format", help="The format of the explanation.")
    ] = ExplainFormat.TEXT,
) -> int:
    """Explain a plan, a service, a policy, a kind or a code."""
    from admc.base.terminal import width
    from admc.cli.output import write_out
    from admc.compile.explain.render import WIDTH, render
    from admc.compile.pipeline import folder_of

    path = Path(subject)
    # A folder is no program, so `retry/` in the working directory does not hide the kind.
    general = None if present(path) and not is_folder(path) else _general(subject)
    if general is not None and name is not None:
        raise wrong_usage(
            "ADM801",
            f"`{subject}` is not a program, so it has no `{name}`",
            hint=f"`admc explain {subject}`, or `admc explain PROGRAM {name}`",
        )
    folder, explanations = ("", [general]) if general is not None else (folder_of(path), _answers(path, name, include))
    document = explanations[0] if len(explanations) == 1 else _together(explanations)
    write_out(render(document, folder, Format(format_.value), min(WIDTH, width(sys.stdout))))
    return Exit.DONE


def _general(subject: str) -> Explanation | None:
    """The explanation of a code, a rule or a built-in kind; None if the subject must be a program."""
    if CODE.fullmatch(subject):
        return _code(subject.upper())
    rule = RULE.fullmatch(subject)
    if rule is not None:
        return _code(f"ADM{600 + int(rule[1])}")
    if "." in subject or "/" in subject or not subject:
        return None
    from admc.compile.explain.kind import explain_kind, explain_kinds
    from admc.compile.pipeline import program_meant
    from dsl.diagnostics.diagnostic import did_you_mean
    from dsl.kinds import prelude
    from dsl.vocabulary import other_meshes

    kinds = {name: declared.kind for name, declared in prelude.kinds().items()}
    if subject == ALL_KINDS:
        return explain_kinds(kinds.values())
    if subject in kinds:
        return explain_kind(kinds[subject])
    raise wrong_usage(
        "ADM807",
        f"`{subject}` is not a program, a code, a rule or a built-in kind",
        cause="it is a folder" if is_folder(Path(subject)) else None,
        hint=_hint(subject)
        or other_meshes.kind(subject, (), prelude.kinds())
        or did_you_mean(subject, [*kinds, ALL_KINDS])
        or program_meant(Path(subject))
        or "give the path of a program: `admc explain policies.adm`; `admc explain kinds` lists the kinds",
    )


def _hint(subject: str) -> str | None:
    """A hint for a subject that resembles a code or a rule."""
    if re.fullmatch(r"ADM[0-9]*", subject, re.IGNORECASE):
        return "a code is `ADM` and three digits, such as `ADM606`"
    if re.fullmatch(r"R[0-9]+", subject, re.IGNORECASE):
        return "the rules are `R1` to `R10`"
    return None


def _code(code: str) -> Explanation:
    from admc.cli.codes import registry
    from admc.compile.explain.explanation import Explanation

    known = registry()
    if code not in known:
        # The nearest code is about something else, so the hint does not name it.
        raise wrong_usage("ADM807", f"there is no code `{code}`", hint="findings show their code in brackets")
    entry = known[code]
    examples = tuple((label, text) for label, text in (("wrong", entry.bad), ("right", entry.good)) if text)
    return Explanation(code, f"{code}: {entry.title}. {entry.explanation}", (), examples)


def _answers(path: Path, name: str | None, include: list[Path] | None) -> list[Explanation]:
    from admc.cli.output import Progress
    from admc.compile.explain.answers import explain_application, explain_policy, explain_service
    from admc.compile.explain.kind import explain_kind
    from admc.compile.pipeline import folder_of, load_program, place_program

    progress = Progress()
    try:
        program = load_program(path, include=include)
        if name is not None:
            _check_name(program, name)
        placement, _seconds = place_program(program, folder_of(path), progress=progress)
        solve = partial(_solve, folder_of(path))
        if name is None:
            return [explain_application(program, placement, solve)]
        others = _cost_of_other(program, placement, folder_of(path))
        answers = []
        if name in program.services:
            answers.append(explain_service(program, placement, name, solve, others))
        if name in program.policy_by_name:
            answers.append(explain_policy(program, placement, name, solve, others))
        if name in program.kinds and not answers:
            answers.append(explain_kind(program.kinds[name]))
        return answers
    finally:
        progress.clear()


def _cost_of_other(program: Program, placement: Placement, folder: str) -> CostOfOther:
    """A function for the costs of other sides, if the program has a profile."""
    if program.profile is None:
        return lambda _decision, _side: None
    from admc.compile.explain.cost_of_choice import cost_of_choice
    from admc.compile.pipeline import costs_of
    from solver.alternatives import Alternatives
    from solver.rules.options import decision_points

    points = decision_points(program)
    costs = costs_of(program, folder, points)
    return partial(cost_of_choice, Alternatives(program, points, placement, costs))


def _solve(folder: str, program: Program) -> Placement:
    from admc.compile.pipeline import solve

    return solve(program, folder)[0]


def _check_name(program: Program, name: str) -> None:
    from dsl.diagnostics.diagnostic import did_you_mean

    known = [*program.services, *program.policy_by_name, *program.kinds]
    if name in known:
        return
    if name in program.externals:
        raise wrong_usage(
            "ADM807",
            f"`{name}` is an external, and no ADM is placed outside the mesh",
            hint="name a service or a policy",
        )
    raise wrong_usage(
        "ADM807",
        f"the program has no service, no policy and no kind `{name}`",
        hint=did_you_mean(name, known) or "leave the name away to see the whole application",
    )


def _together(explanations: list[Explanation]) -> Explanation:
    """One explanation of several, for a service and a policy that share a name."""
    from admc.compile.explain.explanation import Explanation

    return Explanation(
        " and ".join(item.subject for item in explanations),
        "; ".join(item.answer for item in explanations),
        tuple(part for item in explanations for part in item.sections),
    )
