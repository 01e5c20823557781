"""Documents: JSON of a fixed shape, read as values of the types that describe it.

    bytes -> [read] -> value | DocumentError        type -> [schema] -> JSON Schema
    text -> [read_exact] -> value | DocumentError, with decimals as they are written
    value -> [plain] -> dictionaries, lists, texts and numbers, which `json` writes

A type of a document is a class with `@document` (`types`), which holds texts, numbers, truth values, enumerations,
tuples, mappings by name and other such types; `structure` has the type of each part of a document. pydantic checks
types and bounds (`validator`), and is imported only when a document is read or a schema is made. This package adds the
limits on a document from a stranger (`json_text`, `exact_json`), repeated and unknown keys (`key_count`, `extra_keys`),
and messages that quote no value of the input (`violations`), since some documents contain identities and keys. Messages
quote the names of an object's members, and the version of a document.
"""

from __future__ import annotations

from dsl.documents.errors import DocumentError, Fault, VersionError, Violation
from dsl.documents.json_schema import schema
from dsl.documents.reading import kind_of, read, read_exact
from dsl.documents.types import (
    MAX_PLACES,
    Amount,
    Bytes,
    Count,
    Digest,
    Distinct,
    Exact,
    Filled,
    Form,
    Given,
    Json,
    LineNumber,
    Name,
    OneOf,
    Plain,
    PortNumber,
    Published,
    Signed,
    document,
    record,
)
from dsl.documents.writing import fields_of, plain

__all__ = [
    "MAX_PLACES",
    "Amount",
    "Bytes",
    "Count",
    "Digest",
    "Distinct",
    "DocumentError",
    "Exact",
    "Fault",
    "Filled",
    "Form",
    "Given",
    "Json",
    "LineNumber",
    "Name",
    "OneOf",
    "Plain",
    "PortNumber",
    "Published",
    "Signed",
    "VersionError",
    "Violation",
    "document",
    "fields_of",
    "kind_of",
    "plain",
    "read",
    "read_exact",
    "record",
    "schema",
]
