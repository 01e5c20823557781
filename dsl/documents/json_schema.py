"""The JSON Schema of a type."""

from __future__ import annotations

from typing import Any

from dsl.documents.types import BEYOND, CONFIG


def schema(expected: type) -> dict[str, object]:
    """The JSON Schema of a type, with its docstrings as descriptions."""
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def decimal_schema(self, schema: Any) -> dict[str, Any]:
            # A decimal is a number in a document, and never a text.
            return self.float_schema(schema)

        def dict_schema(self, schema: Any) -> dict[str, Any]:
            published = super().dict_schema(schema)
            return {**published, "additionalProperties": False} if "patternProperties" in published else published

    # Reading the source text of each class is only for this: it would be half of the time of a small command.
    CONFIG["use_attribute_docstrings"] = True
    try:
        published: dict[str, object] = TypeAdapter(expected).json_schema(schema_generator=Generator)
    finally:
        del CONFIG["use_attribute_docstrings"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_readable(published)}


def _readable(schema: Any, *, names: bool = False) -> Any:
    """The schema without the titles that pydantic makes of names, and without bounds that no number comes near."""
    if isinstance(schema, list):
        return [_readable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _readable(part, names=name in ("properties", "$defs") and not names)
        for name, part in schema.items()
        if names or not (name == "title" or (isinstance(part, int | float) and abs(part) >= BEYOND))
    }
