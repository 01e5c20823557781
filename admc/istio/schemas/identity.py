"""A schema as the key of a cache: by its identity, since the schemas of the data file are large and read once."""

from __future__ import annotations

from typing import Any


class Identity:
    """It keeps the schema, so that no other object gets its identity."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.schema is other.schema
