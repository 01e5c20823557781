"""The change as a mermaid flowchart: ADMs that come, go or change, and the calls whose protection changes.

    Diff -> text of a flowchart

A service without a change is drawn only if it is an end of such a call. Of a large change only the worst part is drawn,
since a larger picture would not be readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from admc.base.terminal import counted, visible
from admc.review.diff.model import AdmChange, Diff, Finding, Word
from admc.review.diff.render.headline import is_gone, is_new
from emitters.pictures.mermaid import escaped

NODES: Final = 24
EDGES: Final = 30
_LABELS: Final = 3
"""A node or an arrow shows this many lines, and counts the others."""
_LONGEST: Final = 48
_ROW: Final = 4
"""The number of services without an arrow in one row."""
_STYLES: Final = {
    "came": "fill:#dcfce7,stroke:#15803d,stroke-width:2px,color:#14532d",
    "gone": "fill:#fee2e2,stroke:#b91c1c,stroke-width:2px,stroke-dasharray:5 3,color:#7f1d1d",
    "changed": "fill:#fef9c3,stroke:#a16207,stroke-width:2px,color:#713f12",
    "plain": "fill:#f8fafc,stroke:#94a3b8,color:#334155",
}
_MEANINGS: Final = {
    "came": "an ADM comes",
    "gone": "its ADM goes",
    "changed": "its ADM changes",
    "plain": "no change of an ADM",
}
_ARROWS: Final = {"weaker": "==>", "refused": "--x", "came": "-->", "gone": "-.->", "stricter": "-->"}
"""The arrows of the kinds. An arrow of several kinds has the look that comes first here."""
_LINES: Final = {
    "weaker": "stroke:#b91c1c,color:#b91c1c",
    "refused": "stroke:#7e22ce,color:#7e22ce",
    "came": "stroke:#15803d,color:#15803d",
    "gone": "stroke:#64748b,color:#64748b",
    "stricter": "stroke:#1d4ed8,color:#1d4ed8",
}


class _Arrow(NamedTuple):
    kind: str
    label: str


def mermaid(diff: Diff) -> str:
    """The text of the flowchart; empty if there is nothing to draw."""
    arrows = _arrows(diff)
    adms = {adm.service: adm for adm in diff.adms}
    if not arrows and not adms:
        return ""
    pairs, names = _fitting(arrows, diff.adms)
    index = {name: at for at, name in enumerate(names)}
    lines = ["flowchart LR", f"  accTitle: {_accessible(diff.app)}"]
    lines += [f"  n{at}{_node(name, adms.get(name))}" for name, at in index.items()]
    looks = {at: _kind(arrows[pair]) for at, pair in enumerate(pairs)}
    for at, (source, destination) in enumerate(pairs):
        label = "<br/>".join(_few([arrow.label for arrow in arrows[source, destination]]))
        lines.append(f'  n{index[source]} {_ARROWS[looks[at]]}|"{label}"| n{index[destination]}')
    linked = {name for pair in pairs for name in pair}
    lines += _rows([index[name] for name in names if name not in linked])
    lines += _left_out(len(arrows) - len(pairs), len(adms.keys() - index.keys()))
    used = {_class(adms.get(name)) for name in names}
    lines += _legend(used)
    lines += [f"  classDef {name} {style}" for name, style in _STYLES.items() if name in used]
    for kind, style in _LINES.items():
        numbers = [str(at) for at, look in looks.items() if look == kind]
        lines += [f"  linkStyle {','.join(numbers)} {style}"] if numbers else []
    return "\n".join(lines) + "\n"


def _arrows(diff: Diff) -> dict[tuple[str, str], list[_Arrow]]:
    """The arrows by source and destination, the worst arrow of a pair first."""
    arrows: dict[tuple[str, str], list[_Arrow]] = {}

    def add(source: str, destination: str, arrow: _Arrow) -> None:
        listed = arrows.setdefault((source, destination), [])
        if arrow not in listed:
            listed.append(arrow)

    refused = [finding for finding in diff.stricter if finding.word is Word.REFUSED]
    others = [finding for finding in diff.stricter if finding.word is not Word.REFUSED]
    for kind, findings in (("weaker", diff.weaker), ("refused", refused)):
        for finding in findings:
            for call in finding.calls:
                add(call.source, call.destination, _Arrow(kind, _label(finding)))
    for source, destination, change in _calls(diff):
        add(source, destination, _Arrow(change, "new call" if change == "came" else "call gone"))
    for finding in others:
        for call in finding.calls:
            add(call.source, call.destination, _Arrow("stricter", _label(finding)))
    return arrows


def _calls(diff: Diff) -> Iterator[tuple[str, str, str]]:
    """The calls that came or went: source, destination and kind of arrow."""
    for named in diff.program:
        source, arrow, destination = named.name.partition(" -> ")
        if named.kind == "call" and arrow and named.change in ("came", "went"):
            yield source, destination.partition(":")[0], "came" if named.change == "came" else "gone"


def _label(finding: Finding) -> str:
    return f"{finding.word.value}: {_text(finding.policy)}" if finding.policy else finding.word.value


def _fitting(
    arrows: dict[tuple[str, str], list[_Arrow]], adms: tuple[AdmChange, ...]
) -> tuple[list[tuple[str, str]], list[str]]:
    """The arrows and the nodes that are drawn: ADMs that come or go first, then arrows, then ADMs that change."""
    moving = [adm.service for adm in adms if is_new(adm) or is_gone(adm)][: NODES // 2]
    names = dict.fromkeys(moving)
    pairs: list[tuple[str, str]] = []
    for pair in arrows:
        if len(pairs) < EDGES and len(names.keys() | set(pair)) <= NODES:
            pairs.append(pair)
            names.update(dict.fromkeys(pair))
    for adm in adms:
        if len(names) < NODES:
            names.setdefault(adm.service)
    return pairs, sorted(names)


def _kind(arrows: list[_Arrow]) -> str:
    kinds = {arrow.kind for arrow in arrows}
    return next(kind for kind in _ARROWS if kind in kinds)


def _class(adm: AdmChange | None) -> str:
    if adm is None:
        return "plain"
    return "came" if is_new(adm) else "gone" if is_gone(adm) else "changed"


def _node(name: str, adm: AdmChange | None) -> str:
    shown = "callers that are not declared" if name == "*" else _text(name)
    rows = []
    if adm is not None:
        went = [f"− {_text(policy)}" for policy in adm.base_policies if policy not in adm.head_policies]
        came = [f"+ {_text(policy)}" for policy in adm.head_policies if policy not in adm.base_policies]
        rows = _few([*went, *came])
    label = "<br/>".join([f"<b>{shown}</b>" if adm is not None else shown, *rows])
    return f'["{label}"]:::{_class(adm)}'


def _few(labels: list[str]) -> list[str]:
    return labels if len(labels) <= _LABELS else [*labels[: _LABELS - 1], f"and {len(labels) - _LABELS + 1} more"]


def _rows(numbers: list[int]) -> list[str]:
    """Invisible links that put several nodes without arrows into one row. Without them, each node has its own row."""
    rows = (numbers[at : at + _ROW] for at in range(0, len(numbers), _ROW))
    return [f"  {' ~~~ '.join(f'n{number}' for number in row)}" for row in rows if len(row) > 1]


def _left_out(calls: int, adms: int) -> list[str]:
    parts = [counted(number, what) for number, what in ((calls, "more call"), (adms, "more ADM")) if number]
    return [f'  more["not drawn: {", ".join(parts)}"]'] if parts else []


def _legend(nodes: set[str]) -> list[str]:
    """A row that explains the colours of services. Arrows need no explanation, since they have labels."""
    used = [kind for kind in _MEANINGS if kind in nodes]
    if used == ["plain"]:
        return []
    lines = [f'    l_{kind}["{_MEANINGS[kind]}"]:::{kind}' for kind in used]
    row = [f"    {' ~~~ '.join(f'l_{kind}' for kind in used)}"] if len(used) > 1 else []
    return [
        "  subgraph legend",
        "    direction LR",
        *lines,
        *row,
        "  end",
        "  style legend fill:none,stroke:#94a3b8,color:#64748b",
    ]


def _accessible(app: str) -> str:
    """The name for a title. Mermaid has no quotes for titles, so only characters without a meaning are kept."""
    return (
        "What changes in " + "".join(c if c.isascii() and (c.isalnum() or c in "_-") else " " for c in app)[:_LONGEST]
    )


def _text(text: str) -> str:
    shown = visible(text)
    return escaped(shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…")
