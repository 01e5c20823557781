"""A difference as a graph: ADMs that come, go or change, and the calls whose protection changes.

    Diff -> Changes -> nodes, lines

A difference does not contain the mesh. Services whose ADM does not change are drawn only as ends of such calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from admc.base.terminal import counted, visible
from admc.review.diff.model import AdmChange, Diff, Finding, Word
from admc.review.diff.render.headline import is_gone, is_new
from admc.review.diff.render.words import TEXT, base_place, call_names, head_place, place, place_phrase
from admc.review.report.graph import Drawn, Line
from admc.review.report.model import Cell, Key, Section
from admc.review.report.words import names, row

ANY: Final = "*"
SIGN: Final = 16.0
LOOKS: Final = ("weaker", "refused", "came", "gone", "stricter")
"""The looks of an edge. An edge with several effects has the look that comes first here."""
LEGEND: Final = (
    Key("a-came", "an ADM comes"),
    Key("a-gone", "its ADM goes"),
    Key("a-changed", "its ADM changes"),
    Key("service", "no change of an ADM"),
    Key("external", "callers that are not declared"),
    Key("weaker", "gets weaker"),
    Key("refused", "will be refused"),
    Key("came", "a new call"),
    Key("gone", "a call that is gone"),
    Key("stricter", "gets stricter"),
)


class Effect(NamedTuple):
    """One change on a call."""

    look: str
    word: str
    policy: str
    text: str
    at: str


class Changes:
    """Look-ups over one difference."""

    def __init__(self, diff: Diff) -> None:
        self.diff = diff

    @cached_property
    def effects(self) -> Mapping[tuple[str, str], list[Effect]]:
        """The effects on calls by source and destination, the worst effect of a pair first."""
        effects: dict[tuple[str, str], list[Effect]] = {}
        for look, findings in (("weaker", self.diff.weaker), ("", self.diff.stricter), ("gone", self.diff.gone)):
            for finding in findings:
                effect = self._effect(look or ("refused" if finding.word is Word.REFUSED else "stricter"), finding)
                for call in finding.calls:
                    listed = effects.setdefault((call.source, call.destination), [])
                    if effect not in listed:
                        listed.append(effect)
        for source, destination, change, at in self._calls():
            word = "came" if change == "came" else "gone"
            text = "a new call" if word == "came" else "a call that is gone"
            effects.setdefault((source, destination), []).append(Effect(word, word, "", text, at))
        for listed in effects.values():
            listed.sort(key=lambda effect: LOOKS.index(effect.look))
        return dict(sorted(effects.items()))

    @cached_property
    def adms(self) -> Mapping[str, AdmChange]:
        return {adm.service: adm for adm in self.diff.adms}

    @cached_property
    def parties(self) -> tuple[str, ...]:
        names = {name for pair in self.effects for name in pair} | self.adms.keys()
        for move in self.diff.moves:
            names |= {move.destination, *move.base_hosts, *move.head_hosts}
        return tuple(sorted(names))

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """The policies in findings, moves and changed ADMs."""
        findings = (*self.diff.weaker, *self.diff.stricter, *self.diff.gone)
        names = {finding.policy for finding in findings} | {move.policy for move in self.diff.moves}
        for adm in self.diff.adms:
            names |= {*adm.base_policies, *adm.head_policies}
        return tuple(sorted(names - {""}))

    @cached_property
    def index(self) -> Mapping[str, int]:
        return {name: at for at, name in enumerate(self.policies)}

    def weights(self) -> dict[str, int]:
        """The weight of each party: of a large change, the graph shows the parties with the largest weights."""
        weights = dict.fromkeys(self.adms, 1000)
        for pair, effects in self.effects.items():
            for name in pair:
                weights[name] = weights.get(name, 0) + len(effects)
        return weights

    def _effect(self, look: str, finding: Finding) -> Effect:
        where = place(self.diff, finding)
        at = "" if where is None else visible(where.text)
        return Effect(look, finding.word.value, finding.policy, visible(finding.text), at)

    def _calls(self) -> Iterator[tuple[str, str, str, str]]:
        """Calls that came or went: source, destination, `came` or `went`, and the line."""
        for named in self.diff.program:
            source, arrow, destination = named.name.partition(" -> ")
            if named.kind != "call" or not arrow or named.change not in ("came", "went"):
                continue
            side = base_place if named.change == "went" else head_place
            at = "" if named.line is None else visible(side(self.diff, named.line).text)
            yield source, destination.partition(":")[0], named.change, at


def drawn(changes: Changes, nodes: Mapping[str, int]) -> list[Drawn]:
    return [_node(changes, name, nodes) for name in nodes]


def lines(changes: Changes, nodes: Mapping[str, int]) -> list[Line]:
    drawn_lines = []
    for (source, destination), effects in changes.effects.items():
        if source not in nodes or destination not in nodes:
            continue
        policies = {changes.index[effect.policy] for effect in effects if effect.policy}
        ends = (Cell(_shown(source), nodes[source]), Cell(_shown(destination), nodes[destination]))
        panel = (Section("Call", rows=(ends,)), Section("What changes on it", rows=_rows(effects)))
        title = f"{_shown(source)} → {_shown(destination)}"
        looks = {effect.look for effect in effects}
        only = "head" if "came" in looks else "base" if "gone" in looks else ""
        drawn_lines.append(Line(source, destination, effects[0].look, title, tuple(sorted(policies)), panel, only))
    return drawn_lines


def tone(look: str) -> str:
    """The look of a cell with the word of a finding."""
    return {"weaker": "bad", "refused": "bad", "stricter": "good"}.get(look, "quiet")


def _shown(name: str) -> str:
    return "callers that are not declared" if name == ANY else visible(name)


def _rows(effects: Sequence[Effect]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (Cell(effect.word, look=tone(effect.look)), Cell(effect.text), Cell(effect.at, look="quiet"))
        for effect in effects
    )


def _node(changes: Changes, name: str, nodes: Mapping[str, int]) -> Drawn:
    adm = changes.adms.get(name)
    state = "same"
    if adm is not None:
        state = "came" if is_new(adm) else "gone" if is_gone(adm) else "changed"
    elif name in changes.diff.rollout.configuration_only:
        state = "changed"
    policies = set() if adm is None else {changes.index[policy] for policy in (*adm.base_policies, *adm.head_policies)}
    return Drawn(
        name,
        "callers" if name == ANY else "service",
        state != "same",
        SIGN if state != "same" else 0.0,
        state=state,
        policies=tuple(sorted(policies)),
        panel=_panel(changes, name, nodes),
    )


def _panel(changes: Changes, name: str, nodes: Mapping[str, int]) -> tuple[Section, ...]:
    parts = [
        _adm(changes.adms.get(name), name in changes.diff.rollout.configuration_only),
        _moves(changes, name),
        _rollout(changes.diff, name),
    ]
    for title, end in (("Calls to it", 1), ("Calls from it", 0)):
        rows = []
        for pair, effects in changes.effects.items():
            if pair[end] == name:
                other = pair[1 - end]
                rows += [(Cell(_shown(other), nodes.get(other)), *cells) for cells in _rows(effects)]
        parts.append(Section(title, rows=tuple(rows)))
    return tuple(part for part in parts if part.rows or part.note)


def _adm(adm: AdmChange | None, configured: bool) -> Section:
    if adm is None:
        sentence = "Its ADM gets another configuration." if configured else "No change of an ADM here."
        return Section("ADM", sentence)
    sentence = "An ADM comes." if is_new(adm) else "Its ADM goes." if is_gone(adm) else "Its ADM changes."
    rows = [row("sidecars", f"{adm.base_replicas} → {adm.head_replicas}")] if not is_new(adm) else []
    came = [policy for policy in adm.head_policies if policy not in adm.base_policies]
    went = [policy for policy in adm.base_policies if policy not in adm.head_policies]
    stays = [policy for policy in adm.head_policies if policy in adm.base_policies]
    for title, listed in (("policies that come", came), ("policies that go", went), ("policies that stay", stays)):
        if listed:
            rows.append(row(title, names(listed)))
    if is_new(adm):
        rows.insert(0, row("sidecars", f"0 → {adm.head_replicas}"))
    return Section("ADM", sentence, rows=tuple(rows))


def _moves(changes: Changes, name: str) -> Section:
    rows = []
    for move in changes.diff.moves:
        if name in (move.destination, *move.base_hosts, *move.head_hosts):
            before = place_phrase(move, move.base_place, move.base_hosts, TEXT)
            after = place_phrase(move, move.head_place, move.head_hosts, TEXT)
            why = "" if move.cause is None else f"since {visible(move.cause.text)}"
            rows.append(row(visible(move.policy), f"{before} → {after}", why))
    return Section("Why it moved", rows=tuple(rows))


def _rollout(diff: Diff, name: str) -> Section:
    rollout = diff.rollout
    rows = [
        row("restart", f"{counted(restart.pods, 'pod')}, {'before' if restart.comes else 'after'} the steps")
        for restart in rollout.restarts
        if restart.service == name
    ]
    rows += [
        row(
            "NetworkPolicy",
            " ".join(
                (
                    change.action.value,
                    *(f"+{visible(came)}" for came in change.came),
                    *(f"-{visible(went)}" for went in change.went),
                )
            ),
        )
        for change in rollout.network_policies
        if change.destination == name
    ]
    if name in rollout.configuration_only:
        rows.append(row("configuration", "changes without a restart"))
    return Section("Rollout", rows=tuple(rows))


def finding_row(diff: Diff, finding: Finding, look: str, nodes: Mapping[str, int]) -> tuple[Cell, ...]:
    """The word, the calls, the change and its place. A click on the calls selects the destination of the first call."""
    where = place(diff, finding)
    calls = visible(call_names(finding.calls)) if finding.calls else "-"
    node = nodes.get(finding.calls[0].destination) if finding.calls else None
    return (
        Cell(finding.word.value, look=look),
        Cell(calls, node),
        Cell(visible(finding.text)),
        Cell("" if where is None else visible(where.text), look="quiet"),
    )
