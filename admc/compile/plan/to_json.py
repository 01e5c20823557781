"""The plan as JSON: one row a line, so that a review shows which decision changed, and pure ASCII.

The indentation of the standard library would spread a row over ten lines, and its encoder is slow Python code. So each
row is encoded alone by the C encoder, which takes half a second for 150,000 rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from admc.compile.plan.model import Plan
from admc.cost.rows import OverheadRow
from dsl.collector import no_collection
from dsl.documents import fields_of, plain

_encode = json.JSONEncoder(separators=(", ", ": ")).encode


@no_collection()
def to_json(plan: Plan) -> bytes:
    """Canonical bytes of a plan, with a final line break."""
    parts = [
        "{\n",
        f'"schema_version": {plan.schema_version},\n',
        f'"app": {_encode(plan.app)},\n',
        *_rows("inputs", plan.inputs),
        f'"solver": {_encode(plain(plan.solver))},\n',
        *_rows("services", plan.services),
        *_rows("externals", plan.externals),
        *_rows("calls", plan.calls),
        *_rows("policies", plan.policies),
        *_rows("adms", plan.adms),
        *_rows("enforcements", plan.enforcements),
        *_rows("decisions", plan.decisions),
        *_rows("closed", plan.closed),
        *_rows("assumptions", plan.assumptions),
        *_rows("warnings", plan.warnings),
        *([] if plan.profile is None else [f'"profile": {_encode(plain(plan.profile))},\n']),
        *_overhead(plan.overhead),
        "}\n",
    ]
    return "".join(parts).encode("ascii")


def _overhead(overhead: OverheadRow | None) -> list[str]:
    """The overhead, with a line for each total, and a line for each reason why a total is `at_least`."""
    if overhead is None:
        return ['"overhead": null\n']
    totals = [f'  "{name}": {_encode(plain(row))}' for name, row in fields_of(overhead.totals)]
    return [
        '"overhead": {\n"totals": {\n',
        ",\n".join(totals),
        "\n},\n",
        *(_rows("requests", overhead.requests) if overhead.requests else []),
        *_rows("missing", overhead.missing),
        *_rows("extrapolated", overhead.extrapolated),
        f'"saturated": {_encode(overhead.saturated)}\n}}\n',
    ]


def row_text(row: object) -> str:
    """The text of one row in the file."""
    return _encode(plain(row))


def _rows(name: str, rows: Iterable[object]) -> list[str]:
    lines = [row_text(row) for row in rows]
    if not lines:
        return [f'"{name}": [],\n']
    return [f'"{name}": [\n  ', ",\n  ".join(lines), "\n],\n"]
