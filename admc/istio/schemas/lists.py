"""Lists whose entries have to differ: by their keys (`x-kubernetes-list-type: map`), or as a whole (`set`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from admc.istio.schemas.violation import Violation, shown

if TYPE_CHECKING:
    from admc.manifests.documents import Where

Schema = dict[str, Any]


def repeated(data: Any, schema: Any, where: Where = ()) -> Iterator[Violation]:
    """The entries of lists that are there twice, in an object with its defaults."""
    if not isinstance(schema, dict):
        return
    if isinstance(data, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, value in data.items():
            yield from repeated(value, properties.get(name, others), (*where, name))
    elif isinstance(data, list):
        yield from _in_list(data, schema, where)
        for index, value in enumerate(data):
            yield from repeated(value, schema.get("items"), (*where, index))


def _in_list(data: list[Any], schema: Schema, where: Where) -> Iterator[Violation]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("map", "set"):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    earlier: set[str] = set()
    for index, entry in enumerate(data):
        of = [entry.get(key) for key in keys] if kind == "map" and isinstance(entry, dict) else entry
        text = json.dumps(of, sort_keys=True)
        if text in earlier:
            by = f" with the same {', '.join(f'`{key}`' for key in keys)}" if kind == "map" else ""
            message = f"`{shown(where)}` has two entries{by}"
            yield Violation("ADM912", (*where, index), message)
        earlier.add(text)
