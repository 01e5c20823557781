"""Serves a plan as it was reviewed: with the decisions in the plan, and not with decisions of a new solver run.

The program is read again, and the plan must fit it (`admc.compile.reviewed_plan`). The facts of a cluster are an input
of the plan, as its files are. A plan that was made with other facts is refused, and never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.compile.facts import FACTS, from_json, with_facts
from admc.compile.pipeline import load_program
from admc.compile.reviewed_plan import served, unfit
from dsl.words import few

if TYPE_CHECKING:
    from pathlib import Path

    from admc.compile.plan.model import Plan
    from admc.serve.compiling.inputs import Inputs
    from dsl.program import Program
    from solver.placement import Placement

SHOWN: Final = 3
_WORDS: Final = {
    "host_network": "has a pod on the host's network",
    "no_adm": "hosts no ADM",
    "untrusted": "is untrusted",
}


def placed(path: Path, inputs: Inputs, facts: bytes | None = None) -> tuple[Program, Placement]:
    """Return the program of a plan, and the placement in the plan. Raises `CommandError`."""
    plan = inputs.plan()
    if not plan.inputs:
        raise unfit(path, "it names no program", "compile again to write a new one")
    main = path.parent / plan.inputs[0].path
    if main.parent != path.parent:
        raise unfit(path, f"its program `{plan.inputs[0].path}` is not beside it", "compile again to write a new one")
    program = load_program(main, inputs.read, include=inputs.include, names=inputs.names)
    if facts is not None:
        program = with_facts(program, facts)
        _check_facts(path, plan, program, facts)
    return program, served(path, plan, program)


def _check_facts(path: Path, plan: Plan, program: Program, facts: bytes) -> None:
    """Raises `CommandError` if the plan was not made with these facts."""
    now, then = (
        next((item.sha256 for item in inputs if item.path == FACTS), None) for inputs in (program.inputs, plan.inputs)
    )
    if now == then:
        return
    what = "the facts of the cluster"
    cause = f"it was made without {what}" if then is None else f"{what} have changed since"
    first_facts = _first_facts(plan, program, facts)
    hint = "review the plan that the server makes of the program (`admc plan`), and give that"
    raise unfit(path, f"{cause}: {first_facts}" if first_facts else cause, hint)


def _first_facts(plan: Plan, program: Program, facts: bytes) -> str:
    """Describe the first facts. Facts about services that have an ADM in the plan, or that it closes, come first."""
    services = {name: service_facts for name, service_facts in from_json(facts).items() if name in program.services}
    concerned = {adm.service for adm in plan.adms} | {item.destination for item in plan.closed}
    phrases = [
        f"`{name}` {_WORDS[fact]}" + (f" ({reason})" if isinstance(reason, str) else "")
        for name in sorted(services, key=lambda name: (name not in concerned, name))
        for fact, reason in services[name]._asdict().items()
        if reason
    ]
    return few(phrases, SHOWN)
