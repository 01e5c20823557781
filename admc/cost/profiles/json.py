"""Writes profiles and their differences as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from admc.base.decimals import significant
from admc.cost.profiles.write import json_text, to_json
from dsl.documents import plain

if TYPE_CHECKING:
    from pathlib import Path

    from admc.cost.profiles.diff import Cell, Difference, Row
    from admc.cost.profiles.new_profile import NewProfile
    from admc.cost.profiles.source import NamedProfile

_DIGITS: Final = 12


def listed(profiles: Sequence[NamedProfile]) -> str:
    return json_text({"profiles": [head(named) for named in profiles]})


def head(named: NamedProfile) -> dict[str, object]:
    profile = named.profile
    return {
        "named": named.named,
        "name": profile.name,
        "sha256": named.sha256,
        "source": profile.source,
        "platform": plain(profile.platform),
        "proxy": plain(profile.proxy),
        "protocols": [hop.protocol.value for hop in profile.hops],
        "components": [cost.title for cost in profile.components],
    }


def validated(profiles: Sequence[NamedProfile]) -> str:
    return json_text({"exit_code": 0, "profiles": [head(named) for named in profiles], "diagnostics": []})


def described(named: NamedProfile) -> str:
    return to_json(named.profile)


def made(new: NewProfile, output: Path | None) -> str:
    written = None if output is None else str(output)
    return json_text({"profile": plain(new.profile), "notes": list(new.notes), "written": written})


def compared(difference: Difference) -> str:
    return json_text(
        {
            "one": difference.one.name,
            "other": difference.other.name,
            "caution": list(difference.caution),
            "rows": [_row(row) for row in difference.rows],
        }
    )


def _row(row: Row) -> dict[str, object]:
    unit = {"latency": "us", "cpu": "us"}.get(row.quantity, row.quantity)
    return {
        "subject": row.subject,
        "quantity": row.quantity,
        "unit": unit,
        "rate": row.rate,
        "size": row.size,
        "one": _cell(row.one),
        "other": _cell(row.other),
        "ratio": None if row.ratio is None else Decimal(significant(row.ratio, _DIGITS)),
    }


def _cell(cell: Cell | None) -> dict[str, object] | None:
    if cell is None:
        return None
    return {"value": Decimal(significant(cell.value, _DIGITS)), "extrapolated": cell.extrapolated}
