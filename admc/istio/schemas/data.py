"""The data file: schemas of the custom resources of Istio and the Gateway API, and the descriptors of MeshConfig."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).with_name("data.json.gz")


class Kind(NamedTuple):
    """A kind of resource that the data file has."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    schemas: dict[str, dict[str, Any]]
    """By version."""


@cache
def kinds() -> dict[tuple[str, str], Kind]:
    """All kinds, by group and kind."""
    document = _document()
    schemas = document["schemas"]
    return {
        (entry["group"], entry["kind"]): Kind(
            entry["group"],
            entry["kind"],
            entry["plural"],
            entry["namespaced"],
            {version: schemas[index] for version, index in entry["versions"].items()},
        )
        for entry in document["kinds"]
    }


def provenance() -> dict[str, Any]:
    """The modules that the file was made from, with their versions, digests and licence."""
    part: dict[str, Any] = _document()["provenance"]
    return part


def descriptors() -> bytes:
    """The compiled descriptors of MeshConfig, as a `FileDescriptorSet`."""
    import base64

    return base64.b64decode(_document()["descriptors"])


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return document
