"""Texts about a plan that several parts of a page show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admc.base.findings.json import Location
from admc.base.terminal import counted, visible
from admc.compile.plan.model import Enforcement, PolicyRow, ServiceRow, SourceLine
from admc.istio.document import Line
from admc.review.diff.written import argument_text, port_text
from admc.review.report.model import Cell

LONGEST: Final = 500
"""The characters that a page shows of a name or a path. Those of Kubernetes are shorter."""


def at(line: SourceLine) -> str:
    return f"{visible(line.path)}:{line.line}"


def line_of(line: Line | Location | None) -> str:
    """The place of a line of a manifest; empty without one."""
    return "" if line is None else f"{short(line.path)}:{line.line}"


def short(text: str, most: int = LONGEST) -> str:
    """The beginning of a text that a page may repeat for thousands of workloads; most texts are short enough."""
    return visible(text if len(text) <= most else f"{text[:most]}...")


def lines(places: Sequence[SourceLine]) -> str:
    return ", ".join(at(place) for place in places)


def names(listed: Sequence[str]) -> str:
    return ", ".join(visible(name) for name in listed)


def row(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text) for text in texts)


def does(policy: PolicyRow) -> str:
    """A policy as one phrase: `rate_limit(requests: 90, per: 60s) when path == "/a"`."""
    content = policy.content
    given = [(argument.name, argument_text(argument)) for argument in content.arguments]
    written = ", ".join(f"{name}: {text}" for name, text in given if text is not None)
    when = "" if content.when is None else f" when {content.when}"
    return visible(f"{policy.kind}({written}){when}")


def enforced_at(enforcement: Enforcement) -> str:
    """The place of an enforcement: `ingress of rate`, `egress of search`, or `network of rate`, without an ADM."""
    return f"{enforcement.place} of {visible(enforcement.service or enforcement.destination)}"


def ports(service: ServiceRow) -> str:
    return ", ".join(visible(port_text(port)) for port in service.ports)


def more(number: int, most: int, what: str, many: str = "") -> str:
    """A sentence about the rows that a list leaves out; empty if it has all."""
    if number <= most:
        return ""
    left = counted(number - most, f"more {what}", f"more {many}" if many else "")
    return f"And {left}: the JSON has them all."
