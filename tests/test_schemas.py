"""The committed JSON Schemas are those of the types."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from tests.schemas import schemas, text


@pytest.mark.parametrize("name", sorted(path.name for path in schemas()))
def test_a_schema_is_that_of_its_type(name: str) -> None:
    (content,) = (content for path, content in schemas().items() if path.name == name)
    (committed,) = (path.read_text(encoding="utf-8") for path in schemas() if path.name == name)
    assert committed == content, "the types of a document have changed: `make schemas`"


def test_the_schemas_are_schemas_with_descriptions() -> None:
    for content in schemas().values():
        document = json.loads(content)
        Draft202012Validator.check_schema(document)
        assert "description" in content
        assert text(document) == content
