"""Reads a plan, to compare it or to change it as little as possible.

The file may be hostile, half written or of another version: every field is checked against the types in `model.py`, and
each kind of error has its own message.
"""

from __future__ import annotations

from pathlib import Path

from admc.exits import wrong_usage
from admc.files import read_bounded
from admc.json_document import JsonDocumentError, versioned
from admc.plan.contents_check import check_contents
from admc.plan.model import SCHEMA_VERSION, Plan
from admc.typed_json import JsonTypeError, parse
from dsl.collector import no_collection

MAX_BYTES = 256_000_000


class PlanFormatError(Exception):
    """The text is not a plan that this admc can read. `code` distinguishes a newer plan from a broken one."""

    def __init__(self, message: str, *, code: str = "ADM804") -> None:
        self.code = code
        super().__init__(message)


def read_plan(path: Path, *, regular: bool = False) -> Plan:
    """The plan in a file. Raises `CommandError` (exit 1) where there is none; `regular` as in `read_bounded`."""
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


@no_collection()
def from_json(content: bytes) -> Plan:
    """Raises `PlanFormatError`."""
    try:
        document, found = versioned(content, SCHEMA_VERSION)
    except JsonDocumentError as error:
        raise PlanFormatError(str(error), code="ADM805" if error.newer else "ADM804") from error
    if found < SCHEMA_VERSION:
        raise PlanFormatError(f"it has schema version {found}, and this admc reads {SCHEMA_VERSION}")
    try:
        plan = parse(Plan, {"profile": None, **_with_requests(document)})
        check_contents(plan)
    except JsonTypeError as error:
        raise PlanFormatError(f"`{error.where or 'the plan'}` {error.what}") from error
    return plan


def _with_requests(document: dict[str, object]) -> dict[str, object]:
    """A plan of a program without requests has not even their name."""
    overhead = document.get("overhead")
    if not isinstance(overhead, dict):
        return document
    return {**document, "overhead": {"requests": [], **overhead}}
