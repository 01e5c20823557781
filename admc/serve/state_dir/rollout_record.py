"""Where a transition is, on disk: a server that comes back goes on with the very step that it was killed in.

What proxies hold in the middle of a transition is neither the old plan nor the new one, so a server that knew only one
of them could take from a proxy what no other enforces yet. The file has all that both are made from, and is there only
while a transition is under way. It also has the key of the marker: the folder is for its owner alone.
"""

from __future__ import annotations

import base64
import binascii
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.exits import CommandError, wrong_usage
from admc.files import read_bounded, system_message, write_whole
from admc.serve.state_dir.manifest import MODES
from admc.serve.state_dir.store import Recipe
from dsl.program import Side

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA_VERSION: Final = 5
MAX_RECORD: Final = 512_000_000
NAME: Final = "transition.json"


class Record(NamedTuple):
    """A transition under way."""

    old: Recipe
    new: Recipe
    at: int
    """Index of the step."""
    back: bool
    key: bytes
    lingering: frozenset[str] = frozenset()
    """Services where older connections need what an earlier transition kept for them."""
    undone: frozenset[str] = frozenset()
    """Services where a transition that was taken back left its route tables."""
    old_names: Mapping[str, str] = MappingProxyType({})
    """What policies of the old plan are called meanwhile."""
    new_names: Mapping[str, str] = MappingProxyType({})
    dropped: frozenset[tuple[str, Side, str]] = frozenset()
    """What older connections have of policies that neither plan has: destination, side, name of the filter."""


def write(folder: Path, record: Record | None) -> None:
    """Replace what the folder says; None: no transition is under way. Raises `CommandError` where it cannot be."""
    path = folder / NAME
    if record is None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise wrong_usage("ADM803", f"cannot remove `{path}`", cause=system_message(error)) from error
        return
    document = {
        "schema_version": SCHEMA_VERSION,
        "old": _document(record.old),
        "new": _document(record.new),
        "at": record.at,
        "back": record.back,
        "key": _text(record.key),
        "lingering": sorted(record.lingering),
        "undone": sorted(record.undone),
        "names": {"old": dict(record.old_names), "new": dict(record.new_names)},
        "dropped": [list(key) for key in sorted(record.dropped)],
    }
    # Whatever the folder's owner lets others see of it: with the key they could pass for an ADM.
    write_whole(path, (json.dumps(document) + "\n").encode(), private=True)


def read(folder: Path) -> Record | None:
    """The transition that was under way, if any. Raises `CommandError` (ADM854) where the file cannot be used."""
    path = folder / NAME
    if not path.exists():
        return None
    content = read_bounded(path, MAX_RECORD, "the kept transition", regular=True)
    try:
        return _record(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise unusable(folder) from error


def unusable(folder: Path) -> CommandError:
    """Proxies may be in any of its steps, so nothing is told to them."""
    return wrong_usage(
        "ADM854",
        f"the kept transition `{folder / NAME}` cannot be used",
        cause="it is not what this admc writes; the file may be cut short, or of another version",
        hint="remove it once every proxy has the configuration of one plan",
    )


def _record(document: Any) -> Record:
    if document["schema_version"] != SCHEMA_VERSION or type(document["at"]) is not int:
        raise ValueError("another schema")
    if type(document["back"]) is not bool or document["at"] < 0:
        raise ValueError("another schema")
    return Record(
        _recipe(document["old"]),
        _recipe(document["new"]),
        document["at"],
        document["back"],
        _bytes(document["key"]),
        frozenset(map(str, document["lingering"])),
        frozenset(map(str, document["undone"])),
        _names(document["names"]["old"]),
        _names(document["names"]["new"]),
        frozenset((str(name), Side(side), str(called)) for name, side, called in document["dropped"]),
    )


def _names(document: Any) -> dict[str, str]:
    return {str(name): str(other) for name, other in document.items()}


def _document(recipe: Recipe) -> dict[str, Any]:
    return {
        "main": recipe.main,
        "mode": recipe.mode,
        "inputs": {path: _text(content) for path, content in sorted(recipe.inputs.items())},
        "plan": _text(recipe.plan),
        "endpoints": None if recipe.endpoints is None else _text(recipe.endpoints),
    }


def _recipe(document: Any) -> Recipe:
    main, mode, inputs, endpoints = (document[name] for name in ("main", "mode", "inputs", "endpoints"))
    if not isinstance(main, str) or mode not in MODES or main not in inputs:
        raise ValueError("another schema")
    contents = {str(path): _bytes(content) for path, content in inputs.items()}
    return Recipe(main, mode, contents, _bytes(document["plan"]), None if endpoints is None else _bytes(endpoints))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
