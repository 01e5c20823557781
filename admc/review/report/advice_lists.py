"""The lists of an advice that are no charts: what is not in force, what is not judged, findings, the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from admc.base.findings.json import FindingRow
from admc.base.terminal import visible
from admc.istio.document import AdviceDocument, RevisionRow
from admc.istio.in_force.effects import What
from admc.review.report.model import Cell, Section
from admc.review.report.words import line_of, more, row, short
from dsl.diagnostics.diagnostic import Severity
from dsl.documents import plain

MOST_ROWS: Final = 500
_NOT_JUDGED: Final = "not judged"
_UNUSED: Final = "ADM992"
"""The notes about resources that are in force nowhere, which have a list of their own."""
_LOOKS: Final = {Severity.ERROR: "bad", Severity.WARNING: "bad", Severity.NOTE: "quiet"}
_LONGEST: Final = 300


def nowhere(advice: AdviceDocument) -> Section:
    """What is written and in force nowhere."""
    title = "Written, and in force nowhere"
    if not advice.not_in_force:
        every = "Every resource for sidecars is in force at some."
        return Section(title, every if advice.sidecars.today else "There are no sidecars.")
    rows = tuple(
        (
            Cell(visible(f"{it.kind} {it.namespace}/{it.name}")),
            Cell(it.cause),
            Cell(line_of(it.by)),
            Cell(line_of(it.location), look="quiet"),
        )
        for it in advice.not_in_force[:MOST_ROWS]
    )
    note = more(len(advice.not_in_force), MOST_ROWS, "of these", "of these")
    return Section(title, note, head=("resource", "why", "goes before it", "at"), rows=rows)


def guesses(advice: AdviceDocument) -> Iterable[Section]:
    """Where each guessed call comes from."""
    listed = advice.calls.guesses if advice.calls is not None else ()
    if listed:
        rows = tuple(
            row(visible(f"{it.namespace}/{it.workload}"), visible(it.host), line_of(it.location))
            for it in listed[:MOST_ROWS]
        )
        note = more(len(listed), MOST_ROWS, "guessed call")
        yield Section(f"Guessed calls ({len(listed):,})", note, head=("caller", "host", "at"), rows=rows, folded=True)


def resources(advice: AdviceDocument) -> Iterable[Section]:
    """What was not judged, and how many resources concern which proxies."""
    sidecars = {reason.reason: reason.sidecars for reason in advice.reasons if What.NOT_JUDGED in reason.does}
    listed = [(of.kind, it) for of in advice.resources if of.concerns == _NOT_JUDGED for it in of.resources]
    if listed:
        rows = tuple(
            (
                Cell(visible(name := f"{kind} {it.namespace}/{it.name}")),
                Cell(f"{sidecars.get(name, 0):,}"),
                Cell(line_of(it.location), look="quiet"),
            )
            for kind, it in listed[:MOST_ROWS]
        )
        note = "Which sidecars these concern is judged, and what they do there is not: they keep their sidecars."
        left = more(len(listed), MOST_ROWS, "resource")
        yield Section("Not judged", f"{note} {left}".rstrip(), head=("resource", "sidecars", "at"), rows=rows)
    if advice.resources:
        kinds = tuple(
            row(visible(of.kind), visible(of.concerns), f"{len(of.resources):,}") for of in advice.resources[:MOST_ROWS]
        )
        head = ("kind", "concerns", "resources")
        yield Section("Resources by what they concern", head=head, rows=kinds, folded=True)


def findings(advice: AdviceDocument) -> Section:
    listed = [it for it in advice.diagnostics if it.code != _UNUSED]
    if not listed:
        return Section("Findings", "None.")
    rows = tuple(_finding(it) for it in listed[:MOST_ROWS])
    head = ("", "what", "cause", "what to do", "at")
    return Section("Findings", more(len(listed), MOST_ROWS, "finding"), head=head, rows=rows)


def _finding(finding: FindingRow) -> tuple[Cell, ...]:
    return (
        Cell(f"{finding.severity} {visible(finding.code)}", look=_LOOKS[finding.severity]),
        Cell(visible(finding.message)),
        Cell(visible(finding.cause or "")),
        Cell(visible(finding.hint or "")),
        Cell(line_of(finding.location), look="quiet"),
    )


def configuration(advice: AdviceDocument) -> Section:
    rows = [cells for revision in advice.revisions for cells in _settings(revision)]
    rows += [row("schemas", visible(module), visible(version), "") for module, version in advice.schemas.items()]
    rows.append(row("admc", "", visible(advice.version), ""))
    head = ("revision", "setting", "value", "")
    return Section("Configuration and versions", head=head, rows=tuple(rows[:MOST_ROWS]), folded=True)


def _settings(revision: RevisionRow) -> Iterable[tuple[Cell, ...]]:
    where = "no mesh configuration was given" if revision.location is None else line_of(revision.location)
    for name, setting in revision.settings.items():
        origin = "Istio's default" if setting.default else where
        yield row(f"`{visible(revision.name)}`", visible(name), _value(setting.value), origin)


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    return short(text, _LONGEST)
