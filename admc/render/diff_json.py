"""A difference as JSON: the published form (`admc/diff.schema.json`), in pure ASCII."""

from __future__ import annotations

import json

from admc.diff.model import Diff
from admc.typed_json import plain


def render(diff: Diff) -> str:
    document = plain(diff)
    if not isinstance(document, dict):
        raise TypeError("a difference is an object")
    return json.dumps({"schema_version": document.pop("schema_version"), **document}, indent=2) + "\n"
