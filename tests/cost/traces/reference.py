"""A plain recursive evaluation of traces in Alibaba's columns: an object for each call, one tree at a time.

It is written from the rules in docs/traces.md, and shares no code with `admc.cost.traces`.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MS = 1_000_000
ROUNDING = 1


class Cost(NamedTuple):
    """What a mesh adds to one request of a call."""

    latency: int
    cpu: int


class Row(NamedTuple):
    stamp: int
    path: str
    source: str
    destination: str
    spent: int


@dataclass
class Node:
    path: str
    source: str
    destination: str
    begin: int
    end: int
    served: int
    finished: int
    children: list[Node] = field(default_factory=list)


class WrongError(Exception):
    """The trace is dropped."""


def read(path: Path) -> dict[str, list[Row]]:
    """Rows by trace, in the order of the file."""
    found: dict[str, list[Row]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            found.setdefault(row["traceid"], []).append(
                Row(int(row["timestamp"]), row["rpcid"], row["um"], row["dm"], int(row["rt"]))
            )
    return found


def tree(rows: Iterable[Row], known: Iterable[tuple[str, str]], outside: str) -> Node:
    """The root of a trace, whose recorded caller `USER` is an external."""
    nodes = _nodes(rows)
    declared = set(known)
    for node in nodes:
        if node.source == "USER":
            node.source = outside
        if (node.source, node.destination) not in declared:
            raise WrongError("undeclared")
    roots = []
    for node in nodes:
        above = [each for each in nodes if each.path == node.path.rpartition(".")[0]] if "." in node.path else []
        if not above:
            roots.append(node)
            continue
        callers = [each for each in above if each.destination == node.source]
        if len(callers) != 1:
            raise WrongError("ids")
        callers[0].children.append(node)
    if len(roots) != 1 or roots[0].path.count(".") > 1:
        raise WrongError("roots")
    _check_clocks(roots[0])
    return roots[0]


def _nodes(rows: Iterable[Row]) -> list[Node]:
    by_call: dict[tuple[str, str, str], Counter[Row]] = {}
    for row in rows:
        by_call.setdefault((row.path, row.source, row.destination), Counter())[row] += 1
    nodes = []
    for (path, source, destination), counted in by_call.items():
        own = [row for row, number in counted.items() for _ in range(1 if row.spent else number)]
        own.sort(key=lambda row: (-row.spent, row.stamp))
        if len(own) == 2 and own[0].spent >= 0 >= own[1].spent:
            pairs = [(own[0], own[1])]
        elif len(own) == 1 or all(row.spent >= 0 for row in own):
            pairs = [(row, row) for row in own]
        else:
            raise WrongError("ids")
        for client, server in pairs:
            begin, served = client.stamp, server.stamp
            end, finished = begin + abs(client.spent), served + abs(server.spent)
            nodes.append(Node(path, source, destination, begin, end, served, finished))
    return nodes


def _check_clocks(node: Node) -> None:
    for child in node.children:
        if child.begin < node.served - ROUNDING:
            raise WrongError("clock")
        _check_clocks(child)


def path_length(node: Node, costs: Mapping[tuple[str, str], Cost] | None) -> int:
    """Nanoseconds of the longest path, with a mesh or without."""
    waited = sorted(
        (child for child in node.children if child.end <= node.finished + ROUNDING),
        key=lambda child: (child.begin, -child.end),
    )
    covered: set[int] = set()
    for child in waited:
        covered |= set(range(max(child.begin, node.served), min(child.end, node.finished)))
    total = (node.finished - node.served - len(covered)) * MS
    groups: list[list[Node]] = []
    for child in waited:
        if groups and child.begin < max(each.end for each in groups[-1]) - ROUNDING:
            groups[-1].append(child)
        else:
            groups.append([child])
    total += sum(max(path_length(child, costs) for child in group) for group in groups)
    return total + (costs[node.source, node.destination].latency if costs else 0)


def cpu(node: Node, costs: Mapping[tuple[str, str], Cost]) -> int:
    return costs[node.source, node.destination].cpu + sum(cpu(child, costs) for child in node.children)
