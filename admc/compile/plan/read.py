"""Reads a plan, to compare it or to change it as little as possible.

The file may be hostile, half written or of another version: every field is checked against the types in `model.py`, and
each kind of error has its own message.
"""

from __future__ import annotations

from pathlib import Path

from admc.base.exits import wrong_usage
from admc.base.files import read_bounded
from admc.compile.plan.contents_check import check_contents
from admc.compile.plan.model import Plan
from dsl.documents import DocumentError, VersionError, read

MAX_BYTES = 256_000_000


class PlanFormatError(Exception):
    """The text is not a plan that this admc can read. `code` distinguishes a newer plan from a broken one."""

    def __init__(self, message: str, *, code: str = "ADM804") -> None:
        self.code = code
        super().__init__(message)


def read_plan(path: Path, *, regular: bool = False) -> Plan:
    """The plan in a file. Raises `CommandError` (exit 1) if there is no plan. `regular` is that of `read_bounded`."""
    return named_plan(read_bounded(path, MAX_BYTES, "the plan", regular=regular), str(path))


def named_plan(content: bytes, name: str) -> Plan:
    """The plan in the content of a file of this name. Raises `CommandError` (exit 1)."""
    try:
        return from_json(content)
    except PlanFormatError as error:
        if error.code == "ADM805":
            hint = "use the admc that wrote it, or a newer one, or compile again with this one, without `--previous`"
            message = f"the plan `{name}` was written by a newer admc"
        else:
            hint = "compile again to write a new one, without `--previous`"
            message = f"`{name}` is not a plan that admc can read"
        raise wrong_usage(error.code, message, cause=str(error), hint=hint) from error


def from_json(content: bytes) -> Plan:
    """Raises `PlanFormatError`."""
    try:
        plan = read(Plan, content)
        check_contents(plan)
    except VersionError as error:
        raise PlanFormatError(error.message, code="ADM805" if error.newer else "ADM804") from error
    except DocumentError as error:
        raise PlanFormatError(error.message) from error
    return plan
