"""The folded sections of a difference as Markdown, and the Markdown of names, sentences and places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from admc.base.decimals import percent
from admc.base.findings.markdown import cell, code, prose
from admc.base.terminal import counted, visible
from admc.compile.plan.cost_line import amount_text
from admc.review.diff.model import Diff, Finding, How, NetworkPolicyChange, PolicyAction
from admc.review.diff.render import headline as first_line
from admc.review.diff.render import words
from admc.review.diff.render.mermaid import mermaid
from admc.review.diff.render.rollout import configuration_only, order_of_rollout, redirection
from admc.review.diff.render.words import TEXT, LinePlace, Style
from dsl.words import few

_NAME: Final = 120
_SENTENCE: Final = 300
_LONGEST_LINK: Final = 500
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def _cut(text: str, most: int) -> str:
    shown = visible(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _name(name: str) -> str:
    """A name as a code span. An empty code span would merge with the next one, so `(empty)` replaces an empty name."""
    return code(_cut(name, _NAME)) if name.strip() else "(empty)"


# Blanks are stripped, since blanks at the start of a line would begin a block of code.
MARKDOWN: Final = Style(_name, lambda text: prose(_cut(text.strip(), _SENTENCE)))


class Section(NamedTuple):
    name: str
    rank: int
    """The section with the highest rank is left out first."""
    title: str
    """Fixed words and figures only, since the title stands in HTML."""
    lines: Sequence[str]


def sections(diff: Diff, blob: str | None, *, all_weaker: bool, rows: int) -> list[Section]:
    """The sections with content, in the order of the page. A table has at most `rows` rows.

    `all_weaker`: the first lines lack some weaker findings, so a section lists all of them.
    """
    weaker = _findings(diff, diff.weaker, blob, rows) if all_weaker else []
    all_sections = [
        Section("weaker", 0, f"all {counted(len(diff.weaker), 'thing')} that get weaker", weaker),
        Section("stricter", 1, _stricter_title(diff), _findings(diff, diff.stricter, blob, rows)),
        Section("gone", 7, f"gone with its call: {len(diff.gone):,}", _findings(diff, diff.gone, blob, rows)),
        Section("moved", 3, f"moved: {counted(len(diff.moves), 'decision')}", _moves(diff, blob, rows)),
        Section("rollout", 2, _rollout_title(diff), _rollout(diff, rows)),
        Section("cost", 4, f"cost: {first_line.cost_phrase(diff.cost, TEXT)}", _cost(diff)),
        Section("placement", 6, "ADMs and the objective", [*_adms(diff, rows), *_levels(diff)]),
        Section("program", 8, _program_title(diff), _program(diff, blob, rows)),
        Section("graph", 5, "graph of what changed", _graph(diff)),
    ]
    if diff.base.how is How.BROKEN:
        return []
    return [section for section in all_sections if section.lines]


def link(place: LinePlace, blob: str | None) -> str:
    """A place as a link to its line in the commit of its side, or as text if there is no such link."""
    text = code(_cut(place.text, _NAME))
    commit = place.side.commit or ""
    if blob is None or not _COMMIT.fullmatch(commit) or place.path.startswith(("/", "<", "..")):
        return text
    # Lone surrogates have no bytes. Brackets, blanks and bars would end the link or the cell.
    path = quote(place.path, safe="/", errors="replace")
    url = f"{quote(blob.rstrip('/'), safe=':/@-._~%')}/{commit}/{path}#L{place.line}"
    return f"[{text}]({url})" if len(url) <= _LONGEST_LINK else text


def finding_rows(diff: Diff, findings: Iterable[Finding], blob: str | None) -> list[str]:
    rows = []
    for finding in findings:
        at = words.place(diff, finding)
        calls = MARKDOWN.name(words.call_names(finding.calls)) if finding.calls else ""
        rows.append(
            _row(finding.word.value, calls, MARKDOWN.sentence(finding.text), "" if at is None else link(at, blob))
        )
    return rows


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def _table(head: Sequence[str], rows: Sequence[str], number: int) -> list[str]:
    if not rows:
        return []
    more = ["", f"and {number - len(rows):,} more"] if number > len(rows) else []
    return [_row(*head), "|" + "---|" * len(head), *rows, *more]


def _findings(diff: Diff, findings: Sequence[Finding], blob: str | None, rows: int) -> list[str]:
    return _table(("", "call", "what changes", "line"), finding_rows(diff, findings[:rows], blob), len(findings))


def _stricter_title(diff: Diff) -> str:
    refused = first_line.refused_calls(diff)
    refusal = f", {counted(refused, 'declared call')} will be refused" if refused else ""
    return f"stricter: {counted(len(diff.stricter), 'thing')}{refusal}"


def _moves(diff: Diff, blob: str | None, most: int) -> list[str]:
    rows = []
    for move in diff.moves[:most]:
        before = words.place_phrase(move, move.base_place, move.base_hosts, MARKDOWN)
        after = words.place_phrase(move, move.head_place, move.head_hosts, MARKDOWN)
        cause = ""
        if move.cause is not None:
            cause = words.cause_phrase(diff, move.cause, MARKDOWN, lambda place: link(place, blob))
        rows.append(_row(MARKDOWN.name(move.policy), before, after, cause))
    lines = _table(("policy", "before", "after", "why"), rows, len(diff.moves))
    return [*lines, "", words.NO_CAUSES] if lines and words.lacks_causes(diff) else lines


def _rollout_title(diff: Diff) -> str:
    steps = diff.rollout.steps
    parts = [first_line.restart_phrase(diff)]
    if steps is not None:
        parts.append("no safe steps" if steps.refused else f"{counted(steps.steps, 'step')}")
    return f"rollout: {', '.join(parts)}"


def _rollout(diff: Diff, most: int) -> list[str]:
    order = [f"{at}. {step}" for at, step in enumerate(order_of_rollout(diff.rollout, MARKDOWN), start=1)]
    others = [*redirection(diff, MARKDOWN), *configuration_only(diff.rollout, MARKDOWN.name)]
    others += [_senders(change) for change in diff.rollout.network_policies[:most]]
    if (order or others) and words.lacks_steps(diff):
        others.append(words.NO_STEPS)
    return [*order, *([""] if order and others else []), *(f"- {sentence}" for sentence in others)]


def _senders(change: NetworkPolicyChange) -> str:
    came = f" admits {words.listed(change.came, MARKDOWN, 6)}" if change.came else ""
    went = f" admits no longer {words.listed(change.went, MARKDOWN, 6)}" if change.went else ""
    comma = "," if came and went else ""
    if change.action is PolicyAction.OPEN:
        return f"{MARKDOWN.name(change.destination)} has no NetworkPolicy of admc any more"
    return f"the NetworkPolicy of {MARKDOWN.name(change.destination)}{came}{comma}{went}"


def _cost(diff: Diff) -> list[str]:
    cost = diff.cost
    if cost.reason is not None or not cost.lines:
        return []
    rows = []
    for line in cost.lines:
        unit, size = words.unit(line.metric)
        share = "" if line.base.at_least or line.head.at_least else percent(int(line.change), line.base.value)
        before, after = amount_text(line.base, size), amount_text(line.head, size)
        rows.append(_row(MARKDOWN.sentence(unit), before, after, words.change_text(line), share))
    named = "" if cost.profile is None else f"By the profile {MARKDOWN.name(cost.profile.named)}."
    return [*([named, ""] if named else []), *_table(("", "before", "after", "change", ""), rows, len(rows))]


def _adms(diff: Diff, most: int) -> list[str]:
    rows = [
        _row(
            MARKDOWN.name(adm.service),
            _side_of_adm(adm.base_replicas, adm.base_policies),
            _side_of_adm(adm.head_replicas, adm.head_policies),
        )
        for adm in diff.adms[:most]
    ]
    return _table(("ADM", "before", "after"), rows, len(diff.adms))


def _side_of_adm(replicas: int, policies: Sequence[str]) -> str:
    if not replicas and not policies:
        return "none"
    return f"{counted(replicas, 'pod')}: {words.listed(policies, MARKDOWN, 6)}"


def _levels(diff: Diff) -> list[str]:
    changed = [level for level in diff.levels if level.base != level.head]
    rows = [_row(MARKDOWN.sentence(what), *figures) for what, *figures in map(words.level_row, changed)]
    lines = _table(("objective", "before", "after", "change"), rows, len(changed))
    gaps = [
        words.gap_phrase(name, levels) for name, levels in (("BASE", diff.gap.base), ("HEAD", diff.gap.head)) if levels
    ]
    return [*(["", *lines] if lines else []), *(line for gap in gaps for line in ("", MARKDOWN.sentence(gap)))]


def _program_title(diff: Diff) -> str:
    parts = []
    for change in ("came", "went", "changed"):
        number = sum(named.change == change for named in diff.program)
        parts += [f"{number:,} {change}"] if number else []
    renamed = f"{len(diff.renames):,} renamed"
    return f"program: {', '.join([*parts, *([renamed] if diff.renames else [])])}"


def _program(diff: Diff, blob: str | None, most: int) -> list[str]:
    rows = []
    for named in diff.program[:most]:
        at = words.named_place(diff, named)
        text = MARKDOWN.sentence(named.text) if named.text else ""
        name = f"{MARKDOWN.sentence(named.kind)} {MARKDOWN.name(named.name)}"
        rows.append(_row(MARKDOWN.sentence(named.change), name, text, "" if at is None else link(at, blob)))
    lines = _table(("", "what", "", "line"), rows, len(diff.program))
    renames = [f"{MARKDOWN.name(rename.base)} -> {MARKDOWN.name(rename.head)}" for rename in diff.renames]
    if renames:
        lines += [*([""] if lines else []), f"Renamed: {few(renames, most)}"]
    return lines


def _graph(diff: Diff) -> list[str]:
    drawn = mermaid(diff)
    # The text of a graph has no backtick, so it cannot end the block.
    return ["```mermaid", *drawn.rstrip("\n").split("\n"), "```"] if drawn else []
