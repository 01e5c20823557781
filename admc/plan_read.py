"""A plan read back, for comparing and for the least change.

The file may be hostile, half written or of another version: every field is checked against the types in `plan.py`, and
each way in which it can be wrong has its own message. The checkers are made from those types once, so that the two
cannot drift.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from admc.collector import no_collection
from admc.exits import wrong_usage
from admc.files import read_bounded
from admc.plan import SCHEMA_VERSION, Plan
from dsl.program import Side

MAX_BYTES = 256_000_000
MAX_VERSION = 1 << 31


class PlanFormatError(Exception):
    """The text is no plan that this admc reads. `code` tells a newer plan from a broken one."""

    def __init__(self, message: str, *, code: str = "ADM804") -> None:
        self.code = code
        super().__init__(message)


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises `CommandError` (exit 1) where there is none."""
    content = read_bounded(path, MAX_BYTES, "the plan")
    try:
        return from_json(content)
    except PlanFormatError as error:
        if error.code == "ADM805":
            hint = "use the admc that wrote it, or a newer one, or compile without `--previous`"
        else:
            hint = "compile again to write a new one"
        raise wrong_usage(
            error.code, f"`{path}` is not a plan that admc can read", cause=str(error), hint=hint
        ) from error


def previous_sides(plan: Plan) -> dict[tuple[str, str], tuple[Side, ...]]:
    """What the solver wants to know of an earlier plan: (policy, destination) -> sides."""
    return {(decision.policy, decision.destination): decision.sides for decision in plan.decisions}


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
        raise PlanFormatError("it holds a number that is none") from error
    if not isinstance(document, dict):
        raise PlanFormatError("it is not a JSON object")
    found = document.get("schema_version")
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found < MAX_VERSION:
        raise PlanFormatError("it has no `schema_version`")
    if found > SCHEMA_VERSION:
        raise PlanFormatError(
            f"it has schema version {found}, and this admc reads up to {SCHEMA_VERSION}", code="ADM805"
        )
    try:
        plan: Plan = _checker(Plan)(document, "")
    except _WrongError as wrong:
        raise PlanFormatError(f"`{wrong.where}` {wrong.what}" if wrong.where else wrong.what) from wrong
    return plan


def _no_constant(_name: str) -> object:
    raise ValueError("not a number")


class _WrongError(Exception):
    def __init__(self, where: str, what: str) -> None:
        self.where = where
        self.what = what
        super().__init__(what)


# What a checker returns is the type that it was made for, which only `_checker` knows.
_Checker = Callable[[object, str], Any]


@cache
def _checker(expected: object) -> _Checker:
    """A function that turns plain JSON into a value of the type, or raises `_WrongError` with the place."""
    if expected is str:
        return _scalar(str, "must be a string")
    if expected is int:
        return _whole
    if expected is bool:
        return _scalar(bool, "must be true or false")
    if expected is None or expected is type(None):
        return _scalar(type(None), "must be null")
    if isinstance(expected, types.UnionType):
        return _optional(expected)
    if typing.get_origin(expected) is tuple:
        return _rows(typing.get_args(expected)[0])
    if isinstance(expected, type) and issubclass(expected, Enum):
        return _word(expected)
    if isinstance(expected, type):
        return _object(expected)
    raise TypeError(f"no checker for {expected!r}")  # a field of plan.py with a new kind of type


def _scalar(expected: type, what: str) -> _Checker:
    def check(value: object, where: str) -> object:
        if type(value) is not expected:
            raise _WrongError(where, what)
        return value

    return check


def _whole(value: object, where: str) -> object:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise _WrongError(where, "must be a whole number")
    return value


def _optional(union: types.UnionType) -> _Checker:
    (inner,) = (part for part in typing.get_args(union) if part is not type(None))
    check = _checker(inner)
    return lambda value, where: None if value is None else check(value, where)


def _rows(item: object) -> _Checker:
    check = _checker(item)

    def check_all(value: object, where: str) -> object:
        if not isinstance(value, list):
            raise _WrongError(where, "must be a list")
        try:
            return tuple(check(row, "") for row in value)
        except _WrongError:
            # Only now is the place worth its price: which row it was.
            for index, row in enumerate(value):
                check(row, f"{where}[{index}]")
            raise

    return check_all


def _word(expected: type[Enum]) -> _Checker:
    known = {member.value: member for member in expected}
    said = " or ".join(f"`{word}`" for word in known)

    def check(value: object, where: str) -> object:
        member = known.get(value) if isinstance(value, str) else None
        if member is None:
            raise _WrongError(where, f"must be {said}")
        return member

    return check


def _object(expected: type) -> _Checker:
    fields = {name: _checker(hint) for name, hint in typing.get_type_hints(expected).items()}

    def check(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise _WrongError(where, "must be an object")
        if value.keys() != fields.keys():
            missing = sorted(fields.keys() - value.keys())
            unknown = sorted(value.keys() - fields.keys())
            what = f"lacks `{missing[0]}`" if missing else f"has an unknown field `{unknown[0]}`"
            raise _WrongError(where or "the plan", what)
        prefix = f"{where}." if where else ""
        return expected(**{name: checker(value[name], prefix + name) for name, checker in fields.items()})

    return check
