"""Write the golden files and the plans of the examples anew: `python -m tests.examples.golden`.

Read the difference before it is committed: `admc diff HEAD examples/NAME/policies.adm` says what a plan changes.
"""

from __future__ import annotations

from admc.base.exits import CommandError
from admc.compile.pipeline import compile_program
from admc.compile.plan.beside import default_plan_path
from admc.compile.plan.read import read_plan
from admc.compile.plan.to_json import to_json
from tests.cli.command import ROOT
from tests.examples.test_examples import EXAMPLES, GOLDEN, described


def write_plan(name: str) -> None:
    """As `admc compile --previous` does, with the plan that stands there, if it has today's form."""
    program = ROOT / "examples" / name / "policies.adm"
    path = default_plan_path(program)
    try:
        earlier = read_plan(path)
    except CommandError:
        earlier = None
    path.write_bytes(to_json(compile_program(program, previous=earlier).plan))


if __name__ == "__main__":
    for name in EXAMPLES:
        (GOLDEN / f"{name}.txt").write_text(described(name))
        write_plan(name)
