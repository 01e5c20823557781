"""The values of the chart: values.yaml and the table of docs/cluster/install.md follow from values.schema.json.

python -m tests.deploy.values    writes both anew
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from tests.deploy.chart import CHART, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA: Final = CHART / "values.schema.json"
VALUES: Final = CHART / "values.yaml"
PAGE: Final = ROOT / "docs" / "cluster" / "install.md"
TABLE: Final = re.compile(r"(?<=<!-- values of the chart -->\n).*?(?=<!-- end -->)", re.DOTALL)
WIDTH: Final = 118
_NOT_OURS: Final = ("global",)
_HEAD: Final = """\
# The values of the chart, and their defaults. `python -m tests.deploy.values` writes this file from values.schema.json.
"""


class Value(NamedTuple):
    path: tuple[str, ...]
    default: Any
    meaning: str


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return found


def values(part: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[Value]:
    """Those of a schema, in its order; those of a group with the name of the group."""
    for name, each in part["properties"].items():
        if name in _NOT_OURS and not path:
            continue
        if "properties" in each:
            yield from values(each, (*path, name))
        else:
            yield Value((*path, name), each["default"], each["description"])


def values_text() -> str:
    lines = [_HEAD.rstrip()]
    group: tuple[str, ...] = ()
    for each in values(schema()):
        indent = "  " * (len(each.path) - 1)
        lines.append("")
        if len(each.path) > 1 and each.path[:-1] != group:
            lines.append(f"{each.path[0]}:")
        group = each.path[:-1]
        lines += textwrap.wrap(
            each.meaning,
            WIDTH,
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}# ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        lines.append(textwrap.indent(yaml.safe_dump({each.path[-1]: each.default}, sort_keys=False).rstrip(), indent))
    return "\n".join(lines) + "\n"


def table() -> str:
    rows = [f"| `{'.'.join(each.path)}` | `{json.dumps(each.default)}` | {each.meaning} |" for each in values(schema())]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    VALUES.write_text(values_text(), encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
