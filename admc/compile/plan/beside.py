"""The default path of the plan of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PLAN_ENDING: Final = ".plan.json"


def default_plan_path(program: Path) -> Path:
    """`policies.plan.json` for `policies.adm`."""
    return program.with_name(f"{program.stem}{PLAN_ENDING}")
