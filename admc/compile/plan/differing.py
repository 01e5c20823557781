"""Names the parts in which two plans of a program differ, in one line. `admc diff` explains such differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from admc.base.terminal import visible
from admc.compile.plan.model import Plan
from admc.compile.plan.to_json import row_text

SHOWN: Final = 3
"""The most parts that the line names, and the most rows of each part."""
_NAMES: Final[Mapping[str, Callable[[Any], str]]] = {
    "inputs": lambda row: row.path,
    "services": lambda row: row.name,
    "externals": lambda row: row.name,
    "calls": lambda row: f"{row.source} -> {row.destination}",
    "policies": lambda row: row.name,
    "adms": lambda row: row.service,
    "enforcements": lambda row: f"{row.policy} on {row.source} -> {row.destination}",
    "decisions": lambda row: f"{row.policy} at {row.destination}",
    "closed": lambda row: row.destination,
    "assumptions": lambda row: row.text,
    "warnings": lambda row: row.code,
}
_OTHERS: Final = ("app", "solver", "profile", "overhead")


def differing(plan: Plan, anew: Plan) -> str:
    """The parts that differ, with the names of their rows, as the end of a sentence. If none differs, only the bytes of
    the file do."""
    parts = [f"`{name}`" for name in _OTHERS if getattr(plan, name) != getattr(anew, name)]
    for name, named in _NAMES.items():
        one, other = ({row_text(row): named(row) for row in getattr(compared, name) or ()} for compared in (plan, anew))
        rows = [one.get(text) or other[text] for text in [*one, *other] if (text in one) is not (text in other)]
        if rows:
            parts.append(f"`{name}` ({_listed(rows)})")
        elif list(one) != list(other):
            parts.append(f"the order of `{name}`")
    if not parts:
        return "its bytes are not those that admc writes"
    return f"it differs in {_some(parts, 'parts')}"


def _listed(rows: Iterable[str]) -> str:
    return _some([f"`{visible(row)}`" for row in dict.fromkeys(rows)], "")


def _some(items: list[str], what: str) -> str:
    more = len(items) - SHOWN
    shown = ", ".join(items[:SHOWN])
    return f"{shown} and {' '.join(filter(None, (str(more), 'more', what)))}" if more > 0 else shown
