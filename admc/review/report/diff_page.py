"""The page of a difference: weaker findings first, then the graph, figures of both sides, moves and the rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from admc.base.terminal import counted, visible
from admc.cost.rows import AmountRow
from admc.review.diff.model import CostLine, Diff, Finding, Verdict, Word
from admc.review.diff.render import words
from admc.review.diff.render.headline import doubts, headline, nothing_found
from admc.review.diff.render.rollout import configuration_only, order_of_rollout, redirection
from admc.review.diff.render.words import TEXT
from admc.review.report.changes import LEGEND, Changes, drawn, finding_row, lines
from admc.review.report.figures import CORES, LATENCY, MEMORY, Measured, Unit, bars, counts
from admc.review.report.graph import graph, most_important
from admc.review.report.model import BarGroup, Cell, Page, Section
from admc.review.report.words import row

MOST_ROWS: Final = 2000
"""The rows of one table."""
_METRICS: Final = {"cpu": ("CPU", CORES), "memory": ("memory", MEMORY), "latency_per_second": ("latency", LATENCY)}
_TONES: Final = {"fails": "bad", "warns": "bad", "accepted": "quiet", "not judged": "quiet", "passed": "good"}


def diff_page(diff: Diff) -> Page:
    changes = Changes(diff)
    shown = most_important(changes.parties, changes.weights(), list(changes.effects))
    nodes = {name: index for index, name in enumerate(name for name in changes.parties if name in shown)}
    laid = graph(drawn(changes, nodes), lines(changes, nodes))
    first = headline(diff, TEXT)
    hidden = len(changes.parties) - len(nodes)
    left_out = [f"The graph leaves out {counted(hidden, 'service')}: changed ADMs go first."] if hidden else []
    return Page(
        f"{visible(diff.app)}: what changes",
        (first.verdict, *first.figures),
        (*doubts(diff, TEXT), *left_out, *(f"note: {visible(note)}" for note in diff.notes)),
        laid.nodes,
        laid.edges,
        tuple(visible(policy) for policy in changes.policies),
        LEGEND,
        tuple(_sections(diff, nodes)),
        "The ADMs that change, and the calls whose protection changes. A click shows what and why."
        if nodes
        else "No ADM changes, and no protection of a call: there is nothing to draw.",
        lead=tuple(_lead(diff, nodes)),
        compares=True,
    )


def _lead(diff: Diff, nodes: Mapping[str, int]) -> list[Section]:
    """The sections that a reviewer reads first."""
    sections = [_gates(diff)] if diff.gates else []
    sections.append(_findings(diff, "Weaker", diff.weaker, nodes))
    refused = tuple(finding for finding in diff.stricter if finding.word is Word.REFUSED)
    if refused:
        sections.append(_findings(diff, "Declared calls that will be refused", refused, nodes))
    return sections


def _sections(diff: Diff, nodes: Mapping[str, int]) -> list[Section]:
    others = tuple(finding for finding in diff.stricter if finding.word is not Word.REFUSED)
    sections = [_figures(diff), _moves(diff, nodes), _rollout(diff), _findings(diff, "Stricter", others, nodes)]
    if diff.gone:
        sections.append(_findings(diff, "Gone with its call", diff.gone, nodes))
    if diff.renames:
        renamed = tuple(row(visible(rename.base), visible(rename.head)) for rename in diff.renames[:MOST_ROWS])
        sections.append(Section("Renamed policies", head=("before", "after"), rows=renamed))
    if diff.program:
        sections.append(_program(diff))
    return [*sections, _levels(diff), _compared(diff)]


def _gates(diff: Diff) -> Section:
    order = (Verdict.BREACHED, Verdict.NOT_JUDGED, Verdict.ACCEPTED, Verdict.PASSED)
    rows = []
    for gate in sorted(diff.gates, key=lambda gate: (order.index(gate.verdict), not gate.fails)):
        word = words.gate_word(gate)
        rows.append(
            (
                Cell(word, look=_TONES.get(word, "")),
                Cell(visible(gate.name)),
                Cell(f"{'fail' if gate.fails else 'warn'} when {visible(gate.condition)}"),
                Cell(words.gate_text(gate, TEXT)),
                Cell(visible(words.base_place(diff, gate.line).text), look="quiet"),
            )
        )
    return Section("Gates", head=("", "gate", "condition", "found", "line"), rows=tuple(rows))


def _findings(diff: Diff, title: str, findings: Sequence[Finding], nodes: Mapping[str, int]) -> Section:
    if not findings:
        return Section(title, f"{nothing_found(diff)[:1].upper()}{nothing_found(diff)[1:]}.")
    look = "good" if title == "Stricter" else "quiet" if title.startswith("Gone") else "bad"
    rows = tuple(finding_row(diff, finding, look, nodes) for finding in findings[:MOST_ROWS])
    more = len(findings) - len(rows)
    note = f"{counted(more, 'finding')} more: the JSON has them all." if more else ""
    return Section(title, note, head=("", "calls", "what changes", "line"), rows=rows)


def _moves(diff: Diff, nodes: Mapping[str, int]) -> Section:
    if not diff.moves:
        return Section("Moved", "Nothing moves.")
    rows = []
    for move in diff.moves[:MOST_ROWS]:
        why = "" if move.cause is None else words.cause_phrase(diff, move.cause, TEXT, _place)
        rows.append(
            (
                Cell(visible(move.policy)),
                Cell(visible(move.destination), nodes.get(move.destination)),
                Cell(words.place_phrase(move, move.base_place, move.base_hosts, TEXT)),
                Cell(words.place_phrase(move, move.head_place, move.head_hosts, TEXT)),
                Cell(why),
            )
        )
    note = words.NO_CAUSES if words.lacks_causes(diff) else ""
    return Section("Moved", note, head=("policy", "destination", "before", "after", "why"), rows=tuple(rows))


def _place(place: words.LinePlace) -> str:
    return visible(place.text)


def _rollout(diff: Diff) -> Section:
    order = order_of_rollout(diff.rollout, TEXT)
    others = [*redirection(diff, TEXT), *configuration_only(diff.rollout, visible)]
    note = words.NO_STEPS if words.lacks_steps(diff) else ""
    if not order and not others:
        return Section("Rollout", "Nothing changes.")
    rows = [row(f"{at}. {text}") for at, text in enumerate(order, 1)] + [row(text) for text in others]
    return Section("Rollout", note, rows=tuple(rows))


def _figures(diff: Diff) -> Section:
    base, head = diff.base_counts, diff.head_counts
    groups = [
        BarGroup(title, counts([("before", before, "none"), ("after", after, "plan")]))
        for title, before, after in (
            ("ADMs", base.adms, head.adms),
            ("sidecars", base.sidecars, head.sidecars),
            ("closed destinations", base.closed, head.closed),
        )
    ]
    groups += [_cost(line) for line in diff.cost.lines]
    reason = diff.cost.reason
    if reason is not None:
        note = f"No cost: {visible(reason)}."
    else:
        profile = diff.cost.profile
        note = "" if profile is None else f"Costs by the profile `{visible(profile.named)}`."
    return Section("Before and after", note, groups=tuple(groups))


def _cost(line: CostLine) -> BarGroup:
    title, unit = _METRICS.get(line.metric, (visible(line.metric), Unit("", 1)))
    sides: tuple[tuple[str, AmountRow, str], ...] = (("before", line.base, "none"), ("after", line.head, "plan"))
    return BarGroup(f"{title}, {unit.name}: {words.change_text(line)}", bars([Measured(*side) for side in sides], unit))


def _program(diff: Diff) -> Section:
    rows = []
    for named in diff.program[:MOST_ROWS]:
        at = words.named_place(diff, named)
        rows.append(
            row(
                visible(named.change),
                visible(named.kind),
                visible(named.name),
                visible(named.text or ""),
                visible(at.text) if at else "",
            )
        )
    return Section("The program", head=("", "", "name", "what", "line"), rows=tuple(rows))


def _levels(diff: Diff) -> Section:
    rows = tuple(row(*map(visible, words.level_row(level))) for level in diff.levels)
    gaps = [
        f"{words.gap_phrase(name, levels)}."
        for name, levels in (("BASE", diff.gap.base), ("HEAD", diff.gap.head))
        if levels
    ]
    return Section("Objective", " ".join(gaps), head=("", "before", "after", "change"), rows=rows, folded=not gaps)


def _compared(diff: Diff) -> Section:
    return Section(
        "Compared",
        rows=(row("BASE", words.side_taken(diff.base, TEXT)), row("HEAD", words.side_taken(diff.head, TEXT))),
        folded=True,
    )
