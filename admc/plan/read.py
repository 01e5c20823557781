"""Reads a plan, to compare it or to change it as little as possible.

The file may be hostile, half written or of another version: every field is checked against the types in `model.py`, and
each kind of error has its own message.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from admc.exits import wrong_usage
from admc.files import read_bounded
from admc.plan.contents_check import check_contents
from admc.plan.model import FIRST_WITH_CONTENTS, SCHEMA_VERSION, Plan
from admc.typed_json import JsonTypeError, parse
from dsl.collector import no_collection

MAX_BYTES = 256_000_000
MAX_VERSION = 1 << 31
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""Also begins a whole character that is spelt as two halves."""


class PlanFormatError(Exception):
    """The text is not a plan that this admc can read. `code` distinguishes a newer plan from a broken one."""

    def __init__(self, message: str, *, code: str = "ADM804") -> None:
        self.code = code
        super().__init__(message)


def read_plan(path: Path, *, regular: bool = False) -> Plan:
    """The plan in a file. Raises `CommandError` (exit 1) where there is none; `regular` as in `read_bounded`."""
    content = read_bounded(path, MAX_BYTES, "the plan", regular=regular)
    try:
        return from_json(content)
    except PlanFormatError as error:
        if error.code == "ADM805":
            hint = "use the admc that wrote it, or a newer one, or compile again with this one, without `--previous`"
            message = f"the plan `{path}` was written by a newer admc"
        else:
            hint, message = "compile again to write a new one", f"`{path}` is not a plan that admc can read"
        raise wrong_usage(error.code, message, cause=str(error), hint=hint) from error


@no_collection()
def from_json(content: bytes) -> Plan:
    """Raises `PlanFormatError`."""
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise PlanFormatError(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise PlanFormatError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise PlanFormatError(f"line {error.lineno} is not JSON; the file may be cut short") from error
    except ValueError as error:  # numbers beyond what Python reads, and NaN
        raise PlanFormatError("it has a number that JSON does not allow") from error
    if not isinstance(document, dict):
        raise PlanFormatError("it is not a JSON object")
    found = document.get("schema_version")
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found < MAX_VERSION:
        raise PlanFormatError("it has no `schema_version`")
    if found > SCHEMA_VERSION:
        raise PlanFormatError(
            f"it has schema version {found}, and this admc reads up to {SCHEMA_VERSION}", code="ADM805"
        )
    if _HALF.search(content) is not None:
        _refuse_half_characters(document)
    try:
        plan = parse(Plan, {"profile": None, **(document if found >= FIRST_WITH_CONTENTS else _completed(document))})
        check_contents(plan)
    except JsonTypeError as error:
        raise PlanFormatError(f"`{error.where or 'the plan'}` {error.what}") from error
    return plan


def _completed(document: dict[str, object]) -> dict[str, object]:
    """A plan before version 3 with all fields of today's: what it lacks is null. Raises `JsonTypeError`."""
    for name in ("services", "externals", "calls"):
        if name in document:
            raise JsonTypeError("", f"has an unknown field `{name}`")
    policies = document.get("policies")
    if not isinstance(policies, list):
        return document  # it is refused for that
    rows: list[object] = []
    for index, row in enumerate(policies):
        if isinstance(row, dict) and "content" in row:
            raise JsonTypeError(f"policies[{index}]", "has an unknown field `content`")
        rows.append({**row, "content": None} if isinstance(row, dict) else row)
    return {**document, "services": None, "externals": None, "calls": None, "policies": rows}


def _refuse_half_characters(document: object) -> None:
    """JSON can spell half of a character (`\\ud83d` alone), which no text has, and which nothing can print."""
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise PlanFormatError("a text in it has half of a character") from error


def _no_constant(_name: str) -> object:
    raise ValueError("not a number")
