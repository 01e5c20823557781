"""pydantic's validator of a type, changed for documents from strangers."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any, Final

from dsl.documents.structure import is_complete
from dsl.documents.types import MAX_PLACES


class _Absent:
    """Takes the place of a value that an object lacks; no type allows it."""


_ABSENT: Final = _Absent()


@cache
def validator_of(expected: Any) -> Any:
    """A validator of a type that reports few errors for each object and each list, whatever they contain.

    Otherwise a nonsensical document would have millions of errors, each with a copy of its value. So the validator
    stops at the first error of a list, takes a missing key for a wrong default, and ignores unknown keys, which a later
    search finds.
    """
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    schema = TypeAdapter(expected).core_schema
    return SchemaValidator(_with_few_errors(schema))


def _with_few_errors(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_few_errors(part) for part in schema]
    if isinstance(schema, tuple):
        return tuple(_with_few_errors(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    copy = {name: _with_few_errors(part) if name != "metadata" else part for name, part in schema.items()}
    kind = copy.get("type")
    if kind in ("tuple", "list", "frozenset", "set", "dict"):
        copy["fail_fast"] = True
    elif kind in ("str", "int", "float", "bool", "decimal"):
        copy["strict"] = True
        if kind == "decimal":
            function = {"type": "no-info", "function": _decimal}
            copy = {"type": "function-before", "function": function, "schema": copy}
    elif kind == "literal" and any(isinstance(choice, int) for choice in copy["expected"]):
        # `true` is equal to 1.
        copy = {"type": "chain", "steps": [{"type": "int", "strict": True}, copy]}
    elif kind == "dataclass":
        # Not strict: parsed JSON has lists for tuples and texts for enumerations.
        copy["config"] = {**copy.get("config", {}), "extra_fields_behavior": "ignore", "strict": False}
        arguments = copy["schema"]
        for part in arguments["fields"]:
            if part["schema"]["type"] != "default":
                part["schema"] = _required(part["schema"])
            elif is_complete(copy["cls"]):
                part["schema"] = _required(part["schema"]["schema"])
    return copy


def _required(schema: Any) -> Any:
    return {"type": "default", "schema": schema, "default": _ABSENT, "validate_default": True}


def _decimal(value: object) -> object:
    """Raises `ValueError` for a number whose size or number of digits no document needs."""
    number = Decimal(value) if type(value) is int else value
    if isinstance(number, Decimal):
        exponent = number.as_tuple().exponent
        if number.adjusted() > MAX_PLACES:
            raise ValueError("is out of range")
        if isinstance(exponent, int) and exponent < -MAX_PLACES:
            raise ValueError(f"has more than {MAX_PLACES} digits after the point")
    return number
